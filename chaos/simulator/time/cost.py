"""The cost of a node's work on virtual time: counts of its work, times the measured time of each kind.

On virtual time a callback takes no time, however much it does. A step that holds a real loop for half a second would
not show. So each step is charged for what it touched, and its node does nothing until that is paid. Counts are the same
in every run of a seed. Nothing is measured while a world runs.

The charges come where a node meets its disk (`SimDisk`), and at the calls of CALLS, which begin or change things that
grow in number. Counting versions replace these calls while a world exists. The product itself knows nothing of it.

A world holds a few thousand messages, a real hour millions. `weight` makes it a scale model: it says how many rows one
row stands for. That holds for each row read back from an hour, and for each row of the catalog's keys. To keep the
scale, bounds of a step in rows (BOUNDS) are divided by it. A client's request keeps its own size.
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

#: Microseconds, each measured in a process of its own (docs/adr has how).
OPEN_US: Final = 9.0
CALL_US: Final = 0.7
BYTE_US: Final = 0.00006
#: Bytes of index and settle are read, checked, linked and made into states.
ROW_BYTE_US: Final = 0.0008
#: Only a larger read of index or settle can be one of a whole hour. A look-up by number, or of one moment, has its own
#: size. So has all that came since a checkpoint (RowFile.blocks, see _scanning).
ASKED_BYTES: Final = 4096
ROW_FILES: Final = ("index", "settle")

#: Owner, method, its name in a report, microseconds a call, and microseconds a row of its argument.
CALLS: Final[tuple[tuple[str, str, str, float, float], ...]] = (
    ("storage.hour.hour:Hour", "__init__", "hours begun", 5.0, 0.0),
    ("storage.checkpoint.warm_hours:WarmHours", "use", "hours used", 6.0, 0.0),
    ("storage.hour.hour:Hour", "freeze", "hours frozen", 15.0, 0.0),
    ("storage.store:Store", "append", "units appended", 40.0, 0.3),
    ("storage.store:Store", "settle", "settles recorded", 30.0, 0.3),
)
#: The catalog's rows of one key. A call of `Table.drop` drops each.
KEY_TABLES: Final = (b"keys", b"hour_keys")
KEY_ROW_US: Final = 0.9
#: A key stands for at most as many as an entry drops. Then an entry that drops one costs as much as a real one.
KEY_WEIGHT_MAX: Final = 200

#: Module and name of each bound of a step in rows that the weight stands for.
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
    """Charges one process. `weight`: see the module."""

    running: ClassVar[Meter | None] = None
    """The meter of the step that runs now."""

    def __init__(self, weight: int = 1) -> None:
        self.weight = weight
        self.scanning = 0  # calls at work that read all rows of an hour
        self.owed_us = 0.0
        self.by: Counter[str] = Counter()  # the owed microseconds by kind of work

    def charge(self, what: str, us: float) -> None:
        """Charge for work."""
        self.owed_us += us
        self.by[what] += us  # type: ignore[assignment] # Counter can hold floats

    def read(self, path: str, size: int) -> None:
        """Charge for bytes read from a file."""
        us = CALL_US + BYTE_US * size
        if self.scanning and size > ASKED_BYTES and path.endswith(ROW_FILES):
            us = CALL_US + (BYTE_US + ROW_BYTE_US) * size * self.weight
        self.charge(f"bytes of {path.rpartition('/')[2]}", us)

    def take(self) -> tuple[float, dict[str, float]]:
        """Take all that is owed, in seconds, and its milliseconds by kind of work, the dearest first."""
        owed_s, by = self.owed_us / 1e6, {what: us / 1000 for what, us in self.by.most_common()}
        self.owed_us = 0.0
        self.by.clear()
        return owed_s, by


def owed_s() -> float:
    """Seconds of work that the running step has done and not paid for. 0 if no step runs."""
    return 0.0 if Meter.running is None else Meter.running.owed_us / 1e6


def free(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap a call that is not a node's work: its work is not charged."""

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
    """In the block the calls of CALLS count, and bounds are to scale. Within another such block this changes nothing:
    the outer one counts for both."""
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
