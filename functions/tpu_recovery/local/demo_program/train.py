"""A small but real training: fits a straight line by gradient descent, saves Orbax-layout checkpoints, can resume.

Standard library only, so that it runs on any machine. One checkpoint is a directory of objects in the bucket, written
one after the other, with `commit_success.txt` last: what is interrupted before that is not complete.
"""

import argparse
import json
import os
import random
import time
import urllib.parse
import urllib.request
from pathlib import Path

STORE = os.environ.get("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com")


def upload(path: str, content: str) -> None:
    """Write one object of the bucket."""
    bucket, _, name = path[len("gs://") :].partition("/")
    url = f"{STORE}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={urllib.parse.quote(name, safe='')}"
    request = urllib.request.Request(url, data=content.encode(), method="POST")
    with urllib.request.urlopen(request, timeout=30):
        pass


def download(path: str) -> str:
    """Read one object of the bucket."""
    bucket, _, name = path[len("gs://") :].partition("/")
    url = f"{STORE}/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}?alt=media"
    with urllib.request.urlopen(url, timeout=30) as response:
        return str(response.read(), "utf-8")


def save(directory: str, step: int, weights: dict[str, float], seconds: float) -> None:
    """Save a checkpoint the way Orbax lays it out in a bucket; it takes `seconds`."""
    upload(f"{directory}/{step}/_CHECKPOINT_METADATA", json.dumps({"step": step}))
    time.sleep(seconds)
    upload(f"{directory}/{step}/default/weights.json", json.dumps(weights))
    upload(f"{directory}/{step}/default/commit_success.txt", "Checkpoint commit was successful.")
    upload(f"{directory}/{step}/commit_success.txt", "Checkpoint commit was successful.")


def main() -> None:
    """Train from the step that the runner chose."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="resume_step", default="", help="the step to resume from; empty: the beginning")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-seconds", type=float, default=0.05)
    parser.add_argument("--save-seconds", type=float, default=0.6)
    options = parser.parse_args()

    directory = os.environ["TPU_RECOVERY_CHECKPOINTS"]
    weights = {"slope": 0.0, "intercept": 0.0}
    step = 0
    if options.resume_step:
        step = int(options.resume_step)
        weights = json.loads(download(f"{directory}/{step}/default/weights.json"))
    print(f"training from step {step}: {weights}", flush=True)

    progress = Path(os.environ["TPU_RECOVERY_PROGRESS"])
    examples = random.Random(7)
    while step < options.steps:
        x = examples.uniform(-1, 1)
        error = weights["slope"] * x + weights["intercept"] - (3 * x + 1)
        weights["slope"] -= 0.1 * error * x
        weights["intercept"] -= 0.1 * error
        step += 1
        time.sleep(options.step_seconds)
        progress.write_text(str(step))
        if step % options.save_every == 0:
            save(directory, step, weights, options.save_seconds)
            print(f"saved step {step}: {weights}", flush=True)
    print(f"done at step {step}: {weights}", flush=True)


if __name__ == "__main__":
    main()
