"""Columns of records as Arrow arrays: a numpy call a column, no Python per row.

A table is a dict from column name to a function of the rows; only the columns that were asked for are made. Words
(`leased`, `push`) are looked up by Arrow itself, codes as indices into a dictionary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reconcile.files.ids import id_column
from storage.format.array import I64, U64
from storage.format.position import INDEX_BITS
from storage.format.rows import UNIT_KEYED, UNIT_MOVED
from storage.format.states import IS_WHAT, STATES
from storage.record.delivery_record import (
    DELIVERED,
    END,
    FAILED,
    GIVEN_BACK,
    HANDED_ON,
    KILLED,
    LATE,
    LOST,
    PULL,
    PUSH,
    START,
    STOPPED,
    TERM_BEGUN,
    TERM_ENDED,
)
from storage.record.record_rows import home_of

Rows = npt.NDArray[np.void]


def _words(*pairs: tuple[int, str]) -> pa.Array:
    """Words by code; null where there is none."""
    names: list[str | None] = [None] * (max(code for code, _ in pairs) + 1)
    for code, name in pairs:
        names[code] = name
    return pa.array(names, pa.string())


def _what_words() -> pa.Array:
    return _words(*((state.number, state.name) for state in STATES.values() if IS_WHAT[state.number]))


KIND: Final = _words((START, "start"), (END, "end"))
MODE: Final = _words((PULL, "pull"), (PUSH, "push"))
EVENT: Final = _words((TERM_BEGUN, "begun"), (TERM_ENDED, "ended"))
HOW: Final = _words((HANDED_ON, "handed_on"), (LOST, "lost"), (STOPPED, "stopped"), (KILLED, "killed"))
OUTCOME: Final = _words((DELIVERED, "delivered"), (FAILED, "failed"), (GIVEN_BACK, "given_back"), (LATE, "late"))


@dataclass(frozen=True, slots=True, eq=False)
class UnitRows:
    """Units of one hour and their record headers, [n] each; `headers` is None where no column needs them."""

    hour: int
    units: Rows
    headers: Rows | None


@dataclass(frozen=True, slots=True, eq=False)
class SettleRows:
    """Settle records of one hour and their ordinals in its file, [n] each."""

    hour: int
    ordinals: I64
    rows: Rows


@dataclass(frozen=True, slots=True, eq=False)
class DeliveryRows:
    """Records of one node's delivery log, of one kind: hand-overs or terms."""

    node_id: str
    rows: Rows


def batch(names: Sequence[str], makers: Mapping[str, Callable[[Any], pa.Array]], rows: object) -> pa.RecordBatch:
    """The columns of these names."""
    return pa.RecordBatch.from_arrays([makers[name](rows) for name in names], list(names))


def long(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers of up to 64 bits, which keep their bits."""
    if values.dtype.itemsize == 8:
        return pa.array(np.ascontiguousarray(values).view(np.int64))
    return pa.array(values.astype(np.int64))


def integer(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers of up to 16 bits."""
    return pa.array(values.astype(np.int32))


def words(codes: npt.NDArray[Any], dictionary: pa.Array) -> pa.Array:
    """A word for each code; null for one that has none."""
    known = np.minimum(codes, len(dictionary)).astype(np.int32)
    return dictionary.take(pa.array(known, mask=known == len(dictionary)))


def same(value: str, count: int) -> pa.Array:
    """One word for every row."""
    return pa.repeat(pa.scalar(value, pa.string()), count)


def _head(rows: UnitRows) -> Rows:
    assert rows.headers is not None, "a column of the record header, which was not read"
    return rows.headers


def _group(groups: npt.NDArray[Any]) -> int:
    """The one group whose records these are."""
    return int(groups[0]) if len(groups) else 0


def _place(hour: int, global_index: npt.NDArray[Any]) -> U64:
    place: U64 = np.uint64(hour << INDEX_BITS) | global_index
    return place


def _hours(hour: int, count: int) -> pa.Array:
    return pa.array(np.full(count, hour, np.int32))


MESSAGE_COLUMNS: Final[dict[str, Callable[[UnitRows], pa.Array]]] = {
    "id": lambda r: id_column(_group(_head(r)["id_group"]), home_of(_head(r)), _head(r)["random"]),
    "home": lambda r: long(home_of(_head(r))),
    "place": lambda r: long(_place(r.hour, r.units["global_index"])),
    "hour": lambda r: _hours(r.hour, len(r.units)),
    "global_index": lambda r: long(r.units["global_index"]),
    "local_index": lambda r: long(r.units["local_index"]),
    "due_ms": lambda r: long(r.units["due_ms"]),
    "asked_due_ms": lambda r: long(_head(r)["asked_due_ms"]),
    "created_ms": lambda r: long(_head(r)["created_ms"]),
    "expiry_ms": lambda r: long(_head(r)["expiry_ms"]),
    "topic": lambda r: long(r.units["topic"]),
    "priority": lambda r: integer(r.units["priority"]),
    "attempt": lambda r: integer(r.units["attempt"]),
    "keyed": lambda r: pa.array(r.units["flags"] & UNIT_KEYED != 0),
    "moved": lambda r: pa.array(r.units["flags"] & UNIT_MOVED != 0),
    "tags": lambda r: long(r.units["tags"]),
    "random": lambda r: long(_head(r)["random"]),
    "body_len": lambda r: long(_head(r)["body_len"]),
    "payload_crc": lambda r: long(_head(r)["payload_crc"]),
}
HEADER_COLUMNS: Final = frozenset(
    {"id", "home", "asked_due_ms", "created_ms", "expiry_ms", "random", "body_len", "payload_crc"}
)
"""Columns of messages that stand in the record header alone, so that the log has to be read."""

SETTLEMENT_COLUMNS: Final[dict[str, Callable[[SettleRows], pa.Array]]] = {
    "place": lambda r: long(_place(r.hour, r.rows["global_index"])),
    "hour": lambda r: _hours(r.hour, len(r.rows)),
    "global_index": lambda r: long(r.rows["global_index"]),
    "ordinal": lambda r: long(r.ordinals),
    "what": lambda r: words(r.rows["what"], _what_words()),
    "at_ms": lambda r: long(r.rows["at_ms"]),
    "when": lambda r: long(r.rows["when"]),
    "term": lambda r: long(r.rows["term"]),
    "attempt": lambda r: integer(r.rows["attempt"]),
    "node": lambda r: integer(r.rows["node"]),
    "code": lambda r: integer(r.rows["code"]),
    "subscription": lambda r: integer(r.rows["subscription"]),
}
DELIVERY_COLUMNS: Final[dict[str, Callable[[DeliveryRows], pa.Array]]] = {
    "id": lambda r: id_column(_group(r.rows["group"]), r.rows["home"], r.rows["random"]),
    "home": lambda r: long(r.rows["home"]),
    "kind": lambda r: words(r.rows["kind"], KIND),
    "mode": lambda r: words(r.rows["mode"], MODE),
    "outcome": lambda r: words(r.rows["outcome"], OUTCOME),
    "at_ms": lambda r: long(r.rows["at_ms"]),
    "asked_due_ms": lambda r: long(r.rows["asked_due_ms"]),
    "took_ms": lambda r: long(r.rows["took_ms"]),
    "term": lambda r: long(r.rows["term"]),
    "attempt": lambda r: integer(r.rows["attempt"]),
    "code": lambda r: integer(r.rows["code"]),
    "topic": lambda r: long(r.rows["topic"]),
    "subscription": lambda r: integer(r.rows["subscription"]),
    "node": lambda r: integer(r.rows["node"]),
    "node_id": lambda r: same(r.node_id, len(r.rows)),
    "tick": lambda r: long(r.rows["tick"]),
    "local_index": lambda r: long(r.rows["local_index"]),
    "random": lambda r: long(r.rows["random"]),
}
TERM_COLUMNS: Final[dict[str, Callable[[DeliveryRows], pa.Array]]] = {
    "term": lambda r: long(r.rows["term"]),
    "event": lambda r: words(r.rows["kind"], EVENT),
    "at_ms": lambda r: long(r.rows["at_ms"]),
    "how": lambda r: words(r.rows["code"], HOW),
    "node": lambda r: integer(r.rows["node"]),
    "node_id": lambda r: same(r.node_id, len(r.rows)),
    "tick": lambda r: long(r.rows["tick"]),
    "local_index": lambda r: long(r.rows["local_index"]),
}
