"""Measure the fan-out of a message to several subscriptions: `python -m bench.spike.fan_out`.

Messages become due at 10,000 a second of a clock that this process turns. Each turn hands over an entry's worth of them
to every subscription, writes the leases, and acks. The second subscription acks one turn after the first, and so on.
So each end writes a mask of its own. In `acks together` one entry has all ends of a message. In `no masks` only
the last end writes a record at home.

There is no Raft group, no network and no HTTP. Figures are the processor time of this process per message, the median
of all turns. The clock of the run says nothing: 20 s of messages take as long as they take.
"""

from __future__ import annotations

import argparse
import json
import mmap
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.spike import ways
from bench.spike.ways import BASE_MS, DUE_A_MS, ByStubs, ByStubsLookedUp, Way
from bench.spike.ways_of_progress import ByProgress
from bench.stages import NOW_MS, Times
from node.runtime.memory import settle_memory
from storage.format.position import HOUR_MS
from storage.format.states import DELIVERED

RATE: Final = 10_000
WAYS: Final[dict[str, tuple[type[Way], int, int]]] = {
    "1, as today": (Way, 1, 0),
    "2 by stubs": (ByStubs, 2, 1),
    "8 by stubs": (ByStubs, 8, 1),
    "8, acks together": (ByStubs, 8, 0),
    "8, no masks": (ByStubsLookedUp, 8, 1),
    "2 by states": (ByProgress, 2, 1),
    "8 by states": (ByProgress, 8, 1),
}
"""For each column of the table: the way, the number of subscriptions, and how many turns later each next one acks."""

ON_EACH_NODE: Final = (ways.FAN_APPLY, ways.LEASE_APPLY, ways.ACK_APPLY)
BY_THE_LEADER: Final = (
    ways.TO_WINDOW, ways.FAN_ENTRY, ways.TO_WHEEL, ways.TO_WINDOWS, ways.TAKEN, ways.READ, ways.MADE, ways.SHOWN,
    ways.LEASE_ENTRY, ways.COMMITTED, ways.RECEIPTS, ways.ACK_ENTRY,
)  # fmt: skip
ON_DISK: Final = ("index", "log", "settle", "Raft entries")
BESIDE: Final = (ways.OF_RECORDS, ways.OF_MASK)


@dataclass(frozen=True)
class Figures:
    """The figures of one way, per message. `us` are microseconds by stage, `bytes` are by what has them."""

    rows: int
    """Messages of an entry."""
    us: dict[str, float]
    bytes: dict[str, float]
    mean_us: float
    """Of all stages together: the sum of all turns, not the median."""
    took_s: float

    def of(self, stages: Sequence[str]) -> float:
        """Microseconds of these stages together. A stage that the way does not have takes none."""
        return sum(self.us.get(stage, 0.0) for stage in stages)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * mmap.PAGESIZE


def measure(name: str, directory: Path, messages: int, rows: int) -> Figures:
    """Measure one way in a directory of its own, in turns of `rows` messages."""
    settle_memory()
    kind, subscriptions, lag = WAYS[name]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=directory) as own:
        way = kind(Path(own), times := Times(rows), subscriptions, lag)
        positions = way.schedule(messages)
        hour, resident = NOW_MS // HOUR_MS, _resident_bytes()
        before = way.store.lengths(hour)
        for turn in range(messages // rows):
            now_ms = BASE_MS + (turn + 1) * rows // DUE_A_MS
            way.turn(now_ms)
        way.finish(now_ms)
        assert (way.store.states(positions).state == DELIVERED).all(), "a message has not ended"
        resident, after = _resident_bytes() - resident, way.store.lengths(hour)
        assert before is not None
        assert after is not None
        sizes = {
            "index": after.index_len - before.index_len, "log": after.log_len - before.log_len,
            "settle": after.settle_len - before.settle_len, "Raft entries": way.entry_bytes,
            "memory of states, homes, masks": way.state_bytes(), "resident memory, grown by": resident,
        }  # fmt: skip
        way.store.close()
    each = {name: count / messages for name, count in sizes.items()}
    mean_us = 1e6 * sum(sum(spent) for name, spent in times.spent.items() if name not in BESIDE) / messages
    return Figures(rows, times.each_us(), each, mean_us, time.monotonic() - begun)


def show(found: dict[str, Figures]) -> None:
    """Print the table, and one line of JSON."""
    ours = list(found.values())
    table = Table("per message", *found, title="CPU us of a message, all subscriptions together")

    def row(name: str, cells: Sequence[str]) -> None:
        table.add_row(name, *cells)

    for stage in (*BY_THE_LEADER, *BESIDE, *ON_EACH_NODE):
        row(stage, [f"{each.us[stage]:.2f}" if stage in each.us else "" for each in ours])
    table.add_section()
    node, leader = [each.of(ON_EACH_NODE) for each in ours], [each.of(BY_THE_LEADER) for each in ours]
    both = [a + b for a, b in zip(node, leader, strict=True)]
    row("apply, on each node", [f"{us:.1f}" for us in node])
    row("the leader beside apply", [f"{us:.1f}" for us in leader])
    row("the leader, all", [f"{us:.1f}" for us in both])
    row("the leader, all: mean instead of medians", [f"{each.mean_us:.1f}" for each in ours])
    row(f"a follower's core at {RATE:,} due/s", [f"{us * RATE / 1e4:.0f} %" for us in node])
    row(f"the leader's core at {RATE:,} due/s", [f"{us * RATE / 1e4:.0f} %" for us in both])
    row("messages/s of a leader's core", [f"{1e6 / us:,.0f}" for us in both])
    row(f"{RATE:,} due/s, without HTTP: reached", ["yes" if us * RATE < 1e6 else "NO" for us in both])
    longest = [max(each.of([stage]) for stage in ON_EACH_NODE) * each.rows / 1e3 for each in ours]
    row(f"longest apply, ms, {ours[0].rows} messages an entry", [f"{ms:.1f}" for ms in longest])
    table.add_section()
    for name in ours[0].bytes:
        row(f"bytes: {name}", [f"{each.bytes[name]:,.0f}" for each in ours])
    disk = [sum(each.bytes[name] for name in ON_DISK) for each in ours]
    row(f"MB/s on each disk at {RATE:,} due/s", [f"{size * RATE / 1e6:.1f}" for size in disk])
    console = Console()
    console.width = max(console.width, 160)
    console.print(table)
    print(json.dumps({name: asdict(each) for name, each in found.items()}))


def main() -> None:
    """Measure each way in a process of its own and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.spike.fan_out", description=main.__doc__)
    parser.add_argument("--dir", type=Path, default=None, help="for the stores; default: the system's temporary one")
    parser.add_argument("--messages", type=int, default=200_000, help="messages of each way")
    parser.add_argument("--entry", type=int, default=250, help="messages of an entry, a multiple of 10")
    options = parser.parse_args()
    found = {}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as processes:
        for name in WAYS:
            found[name] = processes.submit(measure, name, options.dir, options.messages, options.entry).result()
            print(f"{name}: {found[name].took_s:.0f} s", file=sys.stderr, flush=True)
    show(found)


if __name__ == "__main__":
    main()
