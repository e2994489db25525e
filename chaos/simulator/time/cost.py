"""The cost of a node's work on virtual time: counts of its work, times the measured time of each kind.

On virtual time a callback takes no time, however much it does. So a step (one round of a loop's callbacks) that would
hold a real loop for half a second would not show. Therefore each step is charged for what it touched. Its node does
nothing until the charged time has passed. Counts are the same in every run of a seed. Nothing is measured while a
world runs.

`SimDisk` charges for each use of a node's disk. The methods that CALLS lists are charged too: they begin or change
things that grow in number. While a world exists, `counted` puts versions that charge in their place. The product's own
code knows nothing of charges.

A world holds a few thousand messages, a real hour millions. `weight` makes the world a scale model: one of its rows
stands for `weight` rows. So the charge for a row that is read back from an hour, or dropped from the catalog's keys,
counts `weight` times. The product's bounds on the rows of one step (BOUNDS) are divided by `weight`, so that a step
stays as large as a real one. A client's request is charged for its own size.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: The charges for opening a file, for one read or write, and for each byte of it, in microseconds. Each was measured in
#: a process of its own (docs/adr/0029-work-is-charged-by-count.md).
OPEN_US: Final = 9.0
CALL_US: Final = 0.7
BYTE_US: Final = 0.00006
#: The further charge for a byte of index or settle when a whole hour is read back. Its rows are checked, linked and
#: made into states.
ROW_BYTE_US: Final = 0.0008
#: Only a read of more bytes than this from index or settle can be part of reading a whole hour. A smaller one looks up
#: single rows, and is charged for its own size. So is a read of the rows that came since a checkpoint (RowFile.blocks,
#: _scanning).
ASKED_BYTES: Final = 4096
ROW_FILES: Final = ("index", "settle")

#: Owner, method, its name in a report, microseconds a call, and microseconds a row of its first argument.
CALLS: Final[tuple[tuple[str, str, str, float, float], ...]] = (
    ("storage.hour.hour:Hour", "__init__", "hours begun", 5.0, 0.0),
    ("storage.checkpoint.warm_hours:WarmHours", "use", "hours used", 6.0, 0.0),
    ("storage.hour.hour:Hour", "freeze", "hours frozen", 15.0, 0.0),
    ("storage.store:Store", "append", "units appended", 40.0, 0.3),
    ("storage.store:Store", "settle", "settles recorded", 30.0, 0.3),
)
#: The catalog's tables with a row for each key. A call of `Table.drop` drops one row.
KEY_TABLES: Final = (b"keys", b"hour_keys")
KEY_ROW_US: Final = 0.9
#: A key stands for at most as many keys as one entry of a real cluster drops (storage/tables/key.py). So an entry that
#: drops one key costs as much as a real one.
KEY_WEIGHT_MAX: Final = 200

#: Module and name of each bound that is divided by `weight`: it limits the rows of one step of the product.
BOUNDS: Final = (
    ("storage.tables.key", "DROPPED_MAX"),
    ("storage.checkpoint.hour_set", "_READ_UNITS_MAX"),
    ("storage.state.unit_states", "PAGE_UNITS"),
    ("storage.state.file", "PAGE_UNITS"),
    ("storage.state.files", "PAGE_UNITS"),
    ("storage.state.files", "TAIL_MIN"),
    ("storage.checkpoint.states_due", "TAIL_MIN"),
    ("storage.directory.snapshot_install", "TAIL_MIN"),
    ("storage.checkpoint.warm_hours", "TAIL_MIN"),
)


class Meter:
    """The charges of one loop, or of the jobs of its threads, since the last `take`. `weight` says how many rows of a
    real hour one row of the world stands for (see the module)."""

    running: ClassVar[Meter | None] = None
    """The meter of the step or job that runs now. None: nothing is charged."""

    def __init__(self, weight: int = 1) -> None:
        self.weight = weight
        self.scanning = 0  # calls at work that read all rows of an hour
        self.owed_us = 0.0
        self.by: Counter[str] = Counter()  # the owed microseconds by kind of work

    def charge(self, what: str, us: float) -> None:
        """Add `us` microseconds for work of the kind `what`."""
        self.owed_us += us
        self.by[what] += us  # type: ignore[assignment] # Counter can hold floats

    def read(self, path: str, size: int) -> None:
        """Charge for `size` bytes read from the file at `path`. Rows of a whole hour count `weight` times."""
        us = CALL_US + BYTE_US * size
        if self.scanning and size > ASKED_BYTES and path.endswith(ROW_FILES):
            us = CALL_US + (BYTE_US + ROW_BYTE_US) * size * self.weight
        self.charge(f"bytes of {path.rpartition('/')[2]}", us)

    def take(self) -> tuple[float, dict[str, float]]:
        """Return the seconds that were charged since the last `take`, and the milliseconds of each kind of work, the
        dearest first. Set both to zero."""
        owed_s, by = self.owed_us / 1e6, {what: us / 1000 for what, us in self.by.most_common()}
        self.owed_us = 0.0
        self.by.clear()
        return owed_s, by


def owed_s() -> float:
    """The charges of the running step so far, in seconds: virtual time has not passed for them yet. 0 if no step
    runs."""
    return 0.0 if Meter.running is None else Meter.running.owed_us / 1e6


def free(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap a call of the simulator, so that nothing that it does is charged to the node that runs."""

    @functools.wraps(call)
    def carried_out(*args: P.args, **kwargs: P.kwargs) -> T:
        running, Meter.running = Meter.running, None
        try:
            return call(*args, **kwargs)
        finally:
            Meter.running = running

    return carried_out


def _counting(original: Callable[..., Any], what: str, call_us: float, row_us: float) -> Callable[..., Any]:
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        meter = Meter.running
        if meter is not None:
            meter.charge(what, call_us + (row_us * len(args[0]) if row_us else 0.0))
        return original(self, *args, **kwargs)

    return counted


def _scanning(original: Callable[..., Any]) -> Callable[..., Any]:
    def scanned(self: Any, count: int, after: int = 0) -> Iterator[Any]:
        pieces = original(self, count, after)
        meter = Meter.running
        if meter is None or after:
            yield from pieces
            return
        while True:
            meter.scanning += 1
            try:
                piece = next(pieces, None)
            finally:
                meter.scanning -= 1
            if piece is None:
                return
            yield piece

    return scanned


def _counting_keys(original: Callable[..., Any]) -> Callable[..., Any]:
    def counted(self: Any, key: bytes) -> Any:
        meter = Meter.running
        if meter is not None and self.name in KEY_TABLES:
            meter.charge("keys dropped", KEY_ROW_US * min(meter.weight, KEY_WEIGHT_MAX))
        return original(self, key)

    return counted


def _owner(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


_worlds = 0


@contextmanager
def counted(weight: int = 1) -> Iterator[None]:
    """Within the block the methods of CALLS charge the running meter, and BOUNDS are divided by `weight`. A block
    within another one changes nothing: the methods and bounds of the outer one stay."""
    global _worlds
    replaced: list[tuple[Any, str, Any]] = []
    _worlds += 1

    def put(owner: Any, name: str, value: Any) -> None:
        replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    try:
        if _worlds == 1:
            for path, name, what, call_us, row_us in CALLS:
                owner = _owner(path)
                put(owner, name, _counting(getattr(owner, name), what, call_us, row_us))
            table = _owner("storage.lmdb.table:Table")
            put(table, "drop", _counting_keys(table.drop))
            rows = _owner("storage.file.hour_file:RowFile")
            put(rows, "blocks", _scanning(rows.blocks))
            for module_name, name in BOUNDS:
                module = importlib.import_module(module_name)
                put(module, name, max(1, getattr(module, name) // weight))
        yield
    finally:
        _worlds -= 1
        for owner, name, value in reversed(replaced):
            setattr(owner, name, value)
