"""Measure the reconciliation: what it finds, how long it takes, and how much memory. Anybody can repeat the figures.

    python -m bench.reconcile prove [--messages 10000000] [--each 1000]
    python -m bench.reconcile time [--millions 10 30 100] [--picture docs/pictures/reconcile-time.svg]

`prove` plants `each` messages of every class, flag and cause among plain ones. It compares the result with the plan,
row by row, and ends with status 1 if anything differs.

`time` makes node directories of each size and reconciles them on `local[2]`. It prints the time, and the memory of the
JVM and all Python workers together: the sum over the processes, read every 0.2 s. All directories are removed again,
except those that `make` left below `--at`.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.dataset.make import Planted, make
from ledger.columns import Lost
from reconcile.judge.job import Request, reconcile
from reconcile.output.read_columns import duplicates_columns, ledger_columns
from reconcile.spark.session import session
from storage.format.message_id import encode_ids

GROUP: Final = 0
AUDITED: Final = "audited"
EACH: Final = 1_000
"""Messages of every story, among those that are reconciled for time."""
LOOK_EVERY_S: Final = 0.2
TARGET_S: Final = 300.0
TARGET_GB: Final = 6.0
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Timing:
    """The figures of one timed run. `peak_gb` is the resident memory of all processes together, in 10^9 bytes."""

    messages: int
    took_s: float
    peak_gb: float
    input_gb: float
    output_gb: float
    load: float
    """Load average of the machine at the start, which shows its other work."""


def prove(spark: Any, planted: Planted, work: Path) -> tuple[dict[str, Any], list[str]]:
    """Reconcile the planted messages, with receipts and acknowledgements. Return the report, and its differences from
    the plan.

    `spark` is a session.
    """
    receipts, promised = work / "receipts.csv", work / "promised.csv"
    rows = planted.receipts
    columns = (_ids(rows["home"], rows["random"]), rows["at_ms"], rows["term"], rows["attempt"])
    _write_csv(receipts, "id,at_ms,term,attempt", *columns)
    known, none = planted.expected, planted.never_stored
    ids = np.concatenate([_ids(known["home"], known["random"]), _ids(none["home"], none["random"])])
    _write_csv(promised, "id", ids)
    out = work / "out"
    request = Request(planted.directories, out, [receipts], [promised], receipts_of=[AUDITED], overwrite=True)
    document = reconcile(spark, request)
    differences = [f"{check['name']}: {check['said']}" for check in document["checks"] if not check["held"]]
    messages = ledger_columns(out, remarkable=True)
    nowhere = messages["lost"] == Lost.NOT_FOUND
    if sorted(messages["home"][nowhere].tolist()) != sorted(none["home"].tolist()):
        differences.append(f"{np.count_nonzero(nowhere)} messages are in no hour, {len(none)} were planted so")
    messages = {name: column[~nowhere] for name, column in messages.items()}
    differences += planted.differences(messages, duplicates_columns(out), receipts=True)
    if document["scheduled"] != planted.messages + len(none):
        differences.append(f"{document['scheduled']} messages, {planted.messages + len(none)} were made")
    return document, differences


def _ids(homes: Any, randoms: Any) -> "np.ndarray[Any, np.dtype[np.str_]]":
    return encode_ids(GROUP, np.ascontiguousarray(homes), np.ascontiguousarray(randoms)).astype(str)


def _write_csv(path: Path, header: str, *columns: Any) -> None:
    with path.open("w") as file:
        file.write(header + "\n")
        file.writelines(",".join(map(str, row)) + "\n" for row in zip(*(c.tolist() for c in columns), strict=True))


class Memory:
    """Samples the resident memory of this process and its descendants until closed; `peak` in bytes."""

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the sampling."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self.peak = max(self.peak, _resident(os.getpid()))


def _resident(root: int) -> int:
    """Return the bytes of the process and its descendants. Pages that they share count once for each."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended
            parents[int(entry.name)], sizes[int(entry.name)] = int(fields[1]), int(fields[21]) * _PAGE
    below, fresh = {root}, {root}
    while fresh:
        fresh = {process for process, parent in parents.items() if parent in fresh} - below
        below |= fresh
    return sum(sizes.get(process, 0) for process in below)


@contextmanager
def _directory(at: Path | None) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="hourwheel-reconcile-", dir=at))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _size_gb(path: Path) -> float:
    """Return the size in 10^9 bytes. A file with several names counts once."""
    files = {(found.st_dev, found.st_ino): found.st_size for found in map(os.stat, _files(path))}
    return round(sum(files.values()) / 1e9, 2)


def _files(path: Path) -> Iterator[Path]:
    return (file for file in path.rglob("*") if file.is_file())


@contextmanager
def made(millions: int, at: Path | None) -> Iterator[Path]:
    """Node directories with `millions` million messages: those that `make` left below `at`, or new ones for the
    block."""
    kept = at / f"{millions}M" if at is not None else None
    if kept is not None and kept.is_dir():
        yield kept
        return
    with _directory(at) as path:
        make(path, messages=millions * 1_000_000, each=EACH)
        yield path


def measure(millions: int, at: Path | None) -> Timing:
    """Reconcile `millions` million messages on two threads of this machine, the start of Spark included."""
    with made(millions, at) as data, _directory(at) as work:
        load, begun, memory = os.getloadavg()[0], time.monotonic(), Memory()
        spark = session("local[2]", "1g", work)
        try:
            document = reconcile(spark, Request([data], work / "out"))
        finally:
            took_s = time.monotonic() - begun
            memory.close()
            spark.stop()
        messages = document["scheduled"]
        assert messages >= millions * 1_000_000, f"{messages} messages of {millions} million"
        peak_gb = round(memory.peak / 1e9, 2)
        return Timing(messages, round(took_s, 1), peak_gb, _size_gb(data), _size_gb(work / "out"), load)


def draw(timings: list[Timing], path: Path) -> None:
    """Draw time against messages, with the target beside, as PNG or SVG by the suffix."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    millions = [timing.messages / 1e6 for timing in timings]
    axes.plot(millions, [timing.took_s for timing in timings], "o-", color="#2563eb", label="reconciled on local[2]")
    for timing, x in zip(timings, millions, strict=True):
        said = f"{timing.took_s:.0f} s, {timing.peak_gb:.1f} GB"
        axes.annotate(said, (x, timing.took_s), textcoords="offset points", xytext=(0, 8), ha="center")
    axes.plot([100], [TARGET_S], "v", color="#dc2626", label=f"at most {TARGET_S:.0f} s for 100 M")
    axes.set(xlabel="messages, millions", ylabel="seconds, Spark's start included", ylim=0)
    axes.set_xlim(0, max(*millions, 100) * 1.12)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)


def _prove(arguments: argparse.Namespace) -> int:
    with _directory(arguments.at) as work:
        (work / "data").mkdir()
        planted = make(work / "data", messages=arguments.messages, each=arguments.each)
        spark = session("local[2]", "1g", work)
        try:
            document, differences = prove(spark, planted, work)
        finally:
            spark.stop()
    for difference in differences:
        print(difference, file=sys.stderr)
    shown = {name: document[name] for name in ("scheduled", "classes", "causes", "lost", "took_s")}
    planted_rows = {
        "planted": len(planted.expected["home"]) + len(planted.never_stored),
        "cases": len(planted.cases),
    }
    print(json.dumps(shown | planted_rows | {"differences": len(differences)}))
    return 1 if differences else 0


def _make(arguments: argparse.Namespace) -> int:
    for millions in arguments.millions:
        path = arguments.at / f"{millions}M"
        path.mkdir()
        make(path, messages=millions * 1_000_000, each=EACH)
        print(path, flush=True)
    return 0


def _time(arguments: argparse.Namespace) -> int:
    timings = []
    for millions in arguments.millions:
        timings.append(measure(millions, arguments.at))
        print(json.dumps(asdict(timings[-1])), flush=True)
    if arguments.picture is not None:
        draw(timings, arguments.picture)
    return 0


def main() -> int:
    """Run one of the commands. Return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--at", type=Path, help="where the node directories are made, for a while (420 bytes a message)"
    )
    parts = parser.add_subparsers(required=True)
    proof = parts.add_parser("prove", help="plant faults and find them")
    proof.add_argument("--messages", type=int, default=10_000_000)
    proof.add_argument("--each", type=int, default=1_000)
    proof.set_defaults(run=_prove)
    left = parts.add_parser("make", help="make node directories below --at and leave them there, for time to find")
    left.add_argument("--millions", type=int, nargs="+", default=[10, 30, 100])
    left.set_defaults(run=_make)
    timed = parts.add_parser("time", help="measure time and memory")
    timed.add_argument("--millions", type=int, nargs="+", default=[10, 30, 100])
    timed.add_argument("--picture", type=Path)
    timed.set_defaults(run=_time)
    arguments = parser.parse_args()
    status: int = arguments.run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
