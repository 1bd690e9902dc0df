"""What Plait does: this machine, a network trained on four ranks, and a comparison with MPI.

`make demo` builds Plait first, which takes some minutes, and then runs this, which takes less than one.
"""

import json
import os
import subprocess
import sys
import tempfile

RANKS = 4
HERE = os.path.dirname(os.path.abspath(__file__))
BENCHMARK = os.path.join(HERE, "..", "benchmarks", "resnet50_all_reduce.py")
TRAINING = os.path.join(HERE, "07_train_digits.py")
PLAIT = [sys.executable, "-m", "plait"]
# The two runs add the same numbers in a different order, over 200 steps of float32.
TOLERANCE = 1e-4


def title(text):
    print(f"\n== {text}", flush=True)


def run(command, **extra):
    """Runs a command; if it fails, the demo ends with an error."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    result = subprocess.run(command, env=environment, check=False, **extra)
    if result.returncode != 0:
        sys.exit(f"demo: `{' '.join(command)}` failed with status {result.returncode}")


def read_losses(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def show_machine():
    title("this machine")
    run([*PLAIT, "topo"])
    run([*PLAIT, "topo", "--groups"])
    title("a machine from the papers: Summit's groups, and why a flat ring is not enough there")
    run([*PLAIT, "topo", "--machine", "summit", "--groups"])
    run([*PLAIT, "plan", "all_reduce", "--algorithm", "ring", "--machine", "summit", "--explain"])


def train():
    with tempfile.TemporaryDirectory() as folder:
        several, one = (os.path.join(folder, name) for name in ("several.json", "one.json"))
        title(f"training on the handwritten digits, {RANKS} ranks, gradients averaged by Plait")
        run([*PLAIT, "run", "-n", str(RANKS), "--", sys.executable, TRAINING, "--losses", several])
        title("the same in one process on the whole batch")
        run([sys.executable, TRAINING, "--shares", str(RANKS), "--losses", one])
        losses = [read_losses(path) for path in (several, one)]
    difference = max(abs(a - b) for a, b in zip(*losses, strict=True))
    verdict = "equal" if difference < TOLERANCE else "NOT equal"
    print(f"\nlargest difference between the two loss curves: {difference:.1e} ({verdict} to rounding)")
    if difference >= TOLERANCE:
        sys.exit("demo: the losses differ by more than rounding")


def main():
    show_machine()
    train()
    title(f"all-reduce of ResNet-50's gradients (float32, {RANKS} ranks): microseconds and speedup")
    run([sys.executable, BENCHMARK, "-n", str(RANKS)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
