"""Measure how long a checkpoint's thread keeps other threads from the interpreter: `python -m bench.interpreter`.

A store stages batches of 100 messages that are due in any of the next 720 hours, and makes a checkpoint of them in a
thread. Another thread stands in for the event loop: it sleeps for a moment, again and again, and notes the delay before
it goes on. The switch interval and the collector's thresholds are the node's. On a quiet machine, any delay beyond that
is due to the interpreter lock. The thread that holds it does not release it, or for too short a time
(`storage.file.disk.Disk.pause`).
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from bench.looks import Bench
from node.process import SWITCH_S
from node.runtime.memory import settle_memory
from storage.checkpoint.job import CheckpointJob
from storage.format.position import HOUR_MS

HOURS = 720
BATCH = 100
FIRST_HOUR = 490_004  # far from the hour in which the bench works
NAP_S = 0.0002
ROUNDS = 3


def waits_ms(job: CheckpointJob) -> list[float]:
    """Run a checkpoint in a thread, and sleep for NAP_S again and again in this one. Return how much longer than NAP_S
    each sleep was, in ms."""
    running = threading.Thread(target=job.run)
    found: list[float] = []
    running.start()
    while running.is_alive():
        before_s = time.monotonic()
        time.sleep(NAP_S)
        found.append((time.monotonic() - before_s - NAP_S) * 1000)
    return found


def measure(directory: Path, batches: int, rounds: int = ROUNDS) -> list[float]:
    """Return the longest wait beside each of `rounds` checkpoints of `batches` batches, ms."""
    bench, chance, longest = Bench(directory), np.random.default_rng(1), []
    for _ in range(rounds):
        for _ in range(batches):
            bench.append(FIRST_HOUR * HOUR_MS + chance.integers(0, HOURS * HOUR_MS, BATCH))
        assert bench.store.staged_bytes, "nothing is left to the checkpoint"
        job = bench.store.begin_checkpoint(bench.machine.checkpoint_record())
        longest.append(max(waits_ms(job)))
        job.finish()
    bench.store.close()
    return longest


def main() -> None:
    """Print the longest wait of each round."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--batches", type=int, nargs="*", default=[600, 5_000])
    parser.add_argument("--dir", type=Path, help="for the store; removed again")
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_S)
    settle_memory()
    for batches in options.batches:
        with tempfile.TemporaryDirectory(dir=options.dir) as directory:
            longest = measure(Path(directory), batches)
        print(f"{batches:,} batches: longest wait {' '.join(f'{ms:.1f}' for ms in longest)} ms")


if __name__ == "__main__":
    main()
