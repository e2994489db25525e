"""A node with a probe of its event loop: `python -m bench.stalled_node --config FILE --out FILE --parent PID`.

The watchdog measures what held the loop, and for how long (`hourwheel_loop_held_seconds`). The probe adds three things:
- garbage collections, timed by Python's own callbacks
- fdatasync and syncfs, timed in the threads of the journal and the checkpoint
- trust, read every TICK_S.

The result is written as JSON when the node ends.
"""

import argparse
import asyncio
import gc
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from cli.run.parent import end_with
from cli.run.serve import loop_factory
from node.environment import Environment
from node.node import Node
from node.process import SWITCH_S
from node.runtime.config import load_config
from node.runtime.loop_held import LoopHeld
from node.runtime.memory import settle_memory
from storage.file.disk import Disk

TICK_S = 0.005


class TimedDisk(Disk):
    """The real disk, with a timer on calls that wait for the device."""

    syncs: ClassVar[list[float]] = []

    def fdatasync(self, fd: int) -> None:
        """Sync the file, and add the time that it took to `syncs`."""
        began = time.perf_counter()
        super().fdatasync(fd)
        self.syncs.append(time.perf_counter() - began)

    def syncfs(self, fd: int) -> None:
        """Sync the file system, and add the time that it took to `syncs`."""
        began = time.perf_counter()
        super().syncfs(fd)
        self.syncs.append(time.perf_counter() - began)


class Probe:
    """The measurements of one process, in seconds. `led_s` is how long it led. `unsure_s` is the part of that time in
    which its trust had run out."""

    def __init__(self) -> None:
        self.collections: list[float] = []
        self.led_s = self.unsure_s = 0.0
        self.terms: set[int] = set()
        self._collecting = 0.0
        gc.callbacks.append(self._collect)

    def _collect(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self.collections.append(time.perf_counter() - self._collecting)

    async def watch(self, node: Node) -> None:
        """Measure every TICK_S until cancelled."""
        until = last = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            group = node.group.raft
            if group.is_leader and group.established:
                self.terms.add(group.term)
                if until > float("-inf"):
                    self.led_s += now - last
                    self.unsure_s += max(0.0, now - max(last, until))
                until = group.trusted_until
            else:
                until = float("-inf")
            last = now

    def found(self, held: LoopHeld) -> dict[str, Any]:
        """Return the report. `held` has, by the cause of a hold, how many holds were at most as long as each bucket,
        `count` and `sum`."""
        (family,) = held.collect()
        told: dict[str, dict[str, float]] = {}
        for sample in family.samples:
            told.setdefault(sample.labels["by"], {})[sample.labels.get("le", sample.name.rsplit("_", 1)[1])] = (
                sample.value
            )
        return {
            "held": told,
            "collections": self.collections,
            "syncs": TimedDisk.syncs,
            "led_s": self.led_s,
            "unsure_s": self.unsure_s,
            "terms": sorted(self.terms),
        }


class Probed(Environment):
    """The real environment, with the timed disk."""

    def disk(self) -> Disk:
        """Return the disk that the node uses for all its files."""
        return TimedDisk()


def main() -> None:
    """Run one node until SIGTERM."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    end_with(options.parent)
    config, probe = load_config(options.config), Probe()

    async def live() -> None:
        sys.setswitchinterval(SWITCH_S)
        node = Node(config, Probed())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.life.stop)
        watching = asyncio.ensure_future(probe.watch(node))
        settle_memory()
        try:
            await node.run()
        finally:
            watching.cancel()
            options.out.write_text(json.dumps(probe.found(node.watchdog.held)))

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(live())


if __name__ == "__main__":
    main()
