"""A node that says what its event loop waits for: `python -m bench.stalled_node --config FILE --out FILE --parent PID`.

A thread-free probe: a timer of TICK_S on the loop. A tick that comes more than LATE_S late is a stall, and the kernel's
account of the loop's thread (schedstat) says what it was made of: the processor time it ran, the time it stood in the
run queue, and the rest, in which it waited for the interpreter or for a page. Collections of garbage are timed by
Python's own callbacks, fdatasync and syncfs where the journal's and the checkpoint's threads call them. Trust is looked
at in every tick. What was found is written as JSON when the node ends.
"""

import argparse
import asyncio
import gc
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

from cli.parent import end_with
from cli.serve import loop_factory
from node.config import load_config
from node.memory import settle_memory
from node.outside import Outside
from node.process import SWITCH_S
from node.server import Node
from storage.disk import Disk

TICK_S = 0.005
LATE_S = 0.02


class TimedDisk(Disk):
    """The real one, with a watch on what waits for the device."""

    syncs: ClassVar[list[float]] = []

    def fdatasync(self, fd: int) -> None:
        """As ever."""
        began = time.perf_counter()
        super().fdatasync(fd)
        self.syncs.append(time.perf_counter() - began)

    def syncfs(self, fd: int) -> None:
        """As ever."""
        began = time.perf_counter()
        super().syncfs(fd)
        self.syncs.append(time.perf_counter() - began)


class Probe:
    """What one process found. Seconds."""

    def __init__(self) -> None:
        self.stalls: list[tuple[float, float, float]] = []
        """(late, of it running, of it in the run queue)"""
        self.collections: list[float] = []
        self.led_s = self.unsure_s = 0.0
        self.terms: set[int] = set()
        self._collecting = 0.0
        self._schedstat = open(f"/proc/self/task/{threading.get_native_id()}/schedstat")  # noqa: SIM115
        gc.callbacks.append(self._collect)

    def _collect(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self.collections.append(time.perf_counter() - self._collecting)

    def _spent(self) -> tuple[float, float]:
        self._schedstat.seek(0)
        ran, waited, _ = self._schedstat.read().split()
        return int(ran) / 1e9, int(waited) / 1e9

    async def watch(self, node: Node) -> None:
        """Ticks until cancelled."""
        last, (ran, waited) = time.monotonic(), self._spent()
        until = last
        while True:
            await asyncio.sleep(TICK_S)
            now, (ran_now, waited_now) = time.monotonic(), self._spent()
            late = now - last - TICK_S
            if late > LATE_S:
                self.stalls.append((late, ran_now - ran, waited_now - waited))
            group = node.group
            if group.is_leader and group.established:
                self.terms.add(group.term)
                if until > float("-inf"):
                    self.led_s += now - last
                    self.unsure_s += max(0.0, now - max(last, until))
                until = group.trusted_until
            else:
                until = float("-inf")
            last, ran, waited = now, ran_now, waited_now

    def found(self) -> dict[str, Any]:
        """For the report."""
        return {
            "stalls": self.stalls,
            "collections": self.collections,
            "syncs": TimedDisk.syncs,
            "led_s": self.led_s,
            "unsure_s": self.unsure_s,
            "terms": sorted(self.terms),
        }


class Probed(Outside):
    """The real world, with the timed disk."""

    def disk(self) -> Disk:
        """Where every byte goes."""
        return TimedDisk()


def main() -> None:
    """Runs one node until SIGTERM."""
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
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop)
        watching = asyncio.ensure_future(probe.watch(node))
        settle_memory()
        try:
            await node.run()
        finally:
            watching.cancel()
            options.out.write_text(json.dumps(probe.found()))

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(live())


if __name__ == "__main__":
    main()
