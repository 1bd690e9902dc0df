"""Arrays of JAX: each rank computes a gradient under jit, and Plait averages the gradients of all ranks.

plait run -n 4 -- python examples/09_jax.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import plait


@jax.jit
def gradient(weights, inputs, targets):
    return jax.grad(lambda w: jnp.mean((inputs @ w - targets) ** 2))(weights)


# On GPUs say plait.init(device="cuda"): calls take JAX's arrays as they are, and give new ones.
with plait.init() as comm:
    draw = np.random.default_rng(comm.rank)  # every rank has data of its own
    wanted = np.array([1.0, -2.0, 3.0], dtype="float32")
    inputs = draw.normal(size=(64, 3)).astype("float32")
    weights = jnp.zeros(3)
    for _ in range(200):
        own = gradient(weights, inputs, inputs @ wanted)
        weights -= 0.1 * jnp.asarray(comm.all_reduce(own, op="avg"))
    if comm.rank == 0:
        print(f"{comm.size} ranks: the weights are {np.round(np.asarray(weights), 3).tolist()}")
