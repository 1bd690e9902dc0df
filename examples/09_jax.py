"""Arrays of JAX: each rank computes a gradient under jit, and Plait averages the gradients of all ranks.

    plait run -n 4 -- python examples/09_jax.py

Needs JAX: pip install jax.
"""

import sys

import numpy as np
import plait

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    sys.exit(f"this example needs JAX ({error}): pip install jax")

SAMPLES = 64  # of each rank
STEPS = 200
WANTED = np.array([1, -2, 3], dtype="float32")


@jax.jit
def gradient(weights, inputs, targets):
    return jax.grad(lambda w: jnp.mean((inputs @ w - targets) ** 2))(weights)


# On GPUs say plait.init(device="cuda"): calls take JAX's arrays as they are, and give new ones.
with plait.init() as comm:
    inputs = np.random.default_rng(comm.rank).normal(size=(SAMPLES, 3)).astype("float32")  # every rank has its own
    weights = jnp.zeros(3)
    for _ in range(STEPS):
        own = gradient(weights, inputs, inputs @ WANTED)
        weights -= 0.1 * jnp.asarray(comm.all_reduce(own, op="avg"))
    if comm.rank == 0:
        print(f"{comm.size} ranks: the weights are {np.round(np.asarray(weights), 3).tolist()}")
