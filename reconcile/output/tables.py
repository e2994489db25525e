"""The ledger's columns as Arrow tables, as people and Spark read them: words for codes, ids as text, null for none.

Nothing here works row by row: words are dictionaries over the codes, ids are one buffer of characters, and what Parquet
is told about the columns (which ones repeat, which do not) is what made writing them cheap when it was measured.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ledger.columns import (
    CAUSE_WORDS,
    CLASS_WORDS,
    DELIVERED_CLASSES,
    LATE_WORDS,
    LOST_WORDS,
    Cause,
    Columns,
    Flag,
    MessageClass,
)
from ledger.columns import flag_words as words_of_flags
from reconcile.files.ids import id_column
from storage.format.array import U32
from storage.record.delivery_record import PULL, PUSH

Names = Mapping[int, str]
"""Topic names by number."""

MODE_WORDS: Final = tuple({0: "", PULL: "pull", PUSH: "push"}[code] for code in range(3))
_WORDS: Final = {
    "class": CLASS_WORDS,
    "late_cause": LATE_WORDS,
    "lost": LOST_WORDS,
    "cause": CAUSE_WORDS,
    "mode": MODE_WORDS,
}
_TYPES: Final[dict[str, pa.DataType]] = {
    "topic_number": pa.int64(),
    "flags": pa.int64(),
    "term": pa.int64(),
    "before_term": pa.int64(),
}
_NULL_WITHOUT: Final = {
    "created_ms": "created_ms",
    "first_ms": "first_ms",
    "late_ms": "first_ms",
    "settled_ms": "settled_ms",
    "lease_end_ms": "lease_end_ms",
}
"""Column -> the column whose 0 says that there is none."""
_FLAG_BITS: Final = len(Flag)
_TEXT: Final = pa.dictionary(pa.int8(), pa.string())
_TOPIC: Final = pa.dictionary(pa.int32(), pa.string())

LEDGER_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("home", pa.int64()),
        ("random", pa.int64()),
        ("topic", _TOPIC),
        ("topic_number", pa.int64()),
        ("class", _TEXT),
        ("flags", pa.int64()),
        ("flag_names", _TOPIC),
        ("late_cause", _TEXT),
        ("lost", _TEXT),
        ("mode", _TEXT),
        ("hand_overs", pa.int32()),
        ("retries", pa.int32()),
        ("duplicates", pa.int32()),
        ("received", pa.int32()),
        ("created_ms", pa.int64()),
        ("asked_due_ms", pa.int64()),
        ("due_ms", pa.int64()),
        ("first_ms", pa.int64()),
        ("late_ms", pa.int64()),
        ("settled_ms", pa.int64()),
        ("term", pa.int64()),
        ("attempt", pa.int32()),
        ("node", pa.int32()),
        ("code", pa.int32()),
    ]
)
"""One row a message."""

DUPLICATES_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("home", pa.int64()),
        ("random", pa.int64()),
        ("topic", _TOPIC),
        ("topic_number", pa.int64()),
        ("cause", _TEXT),
        ("mode", _TEXT),
        ("term", pa.int64()),
        ("attempt", pa.int32()),
        ("node", pa.int32()),
        ("at_ms", pa.int64()),
        ("before_term", pa.int64()),
        ("before_attempt", pa.int32()),
        ("before_node", pa.int32()),
        ("before_ms", pa.int64()),
        ("lease_end_ms", pa.int64()),
        ("other", pa.int64()),
    ]
)
"""One row a hand-over that repeats another; `other` is the home of the message it repeats."""

CANONICAL_SCHEMA: Final = pa.schema(
    [
        (name, LEDGER_SCHEMA.field(name).type)
        for name in ("id", "topic", "asked_due_ms", "first_ms", "late_ms", "settled_ms")
    ]
    + [(name, LEDGER_SCHEMA.field(name).type) for name in ("term", "attempt", "node", "mode")]
)
"""One row a message that was delivered, by its first hand-over, however often it came."""

REPAIRS_SCHEMA: Final = pa.schema(
    [("action", _TEXT), ("reason", _TEXT), ("id", pa.string()), ("topic", _TOPIC), ("class", _TEXT)]
    + [("asked_due_ms", pa.int64())]
)
"""One row a message that `hourwheel reconcile apply` can do something about."""

REDELIVER, SUPPRESS = "redeliver", "suppress"
_ACTIONS: Final = ("", REDELIVER, SUPPRESS)
TWICE: Final = "scheduled_twice"
_REASONS: Final = (*LOST_WORDS, "delivered_unsettled", TWICE)
OPEN: Final = (MessageClass.PENDING, MessageClass.IN_FLIGHT)

UNMATCHED_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("class", pa.string()),
        ("at_ms", pa.int64()),
        ("term", pa.int64()),
        ("attempt", pa.int32()),
    ]
)
"""One row a receipt or acknowledgement that matched no message."""


def _dictionary(codes: npt.NDArray[Any], words: tuple[str, ...], kind: pa.DataType) -> pa.Array:
    indices = pa.array(codes.astype(kind.index_type.to_pandas_dtype()))
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


def _flag_names(flags: U32) -> pa.Array:
    """The words of each row's flags, one text for each combination that occurs."""
    there = np.flatnonzero(np.bincount(flags, minlength=1))
    code = np.zeros(1 << _FLAG_BITS, np.int32)
    code[there] = np.arange(len(there))
    return _dictionary(code[flags], tuple(" ".join(words_of_flags(bits)) for bits in there.tolist()), _TOPIC)


def _topics(numbers: U32, names: Names) -> pa.Array:
    there = np.unique(numbers)
    codes = np.searchsorted(there, numbers)
    return _dictionary(codes, tuple(names.get(number, f"#{number}") for number in there.tolist()), _TOPIC)


def to_table(columns: Columns, schema: pa.Schema, group: int, names: Names) -> pa.Table:
    """The columns that `schema` names as a table."""
    arrays: list[pa.Array] = []
    for field in schema:
        if field.name == "id":
            arrays.append(id_column(group, columns["home"], columns["random"]))
        elif field.name == "topic":
            arrays.append(_topics(columns["topic"], names))
        elif field.name == "flag_names":
            arrays.append(_flag_names(columns["flags"]))
        elif field.name in _WORDS:
            arrays.append(_dictionary(columns[field.name], _WORDS[field.name], _TEXT))
        else:
            column = columns["topic" if field.name == "topic_number" else field.name]
            without = _NULL_WITHOUT.get(field.name)
            mask = columns[without] == 0 if without is not None else None
            arrays.append(pa.array(column.astype(field.type.to_pandas_dtype(), copy=False), field.type, mask=mask))
    return pa.Table.from_arrays(arrays, schema=schema)


def canonical_rows(messages: Columns, duplicates: Columns) -> npt.NDArray[np.bool_]:
    """Which messages were delivered, each once: of those that were scheduled twice the first alone counts."""
    kind = messages["class"]
    delivered: npt.NDArray[np.bool_] = np.isin(kind, DELIVERED_CLASSES)
    twins = duplicates["home"][duplicates["cause"] == Cause.SCHEDULED_TWICE]
    if len(twins):
        delivered &= ~np.isin(messages["home"], twins)
    return delivered


def repairs(messages: Columns, group: int, names: Names) -> pa.Table:
    """What can be put right: what was lost is to come again, what was delivered and is open, or was scheduled twice, is
    to be kept from coming again."""
    kind, flags, lost = messages["class"], messages["flags"], messages["lost"]
    open_ = np.isin(kind, OPEN)
    unsettled = open_ & (flags & np.uint32(Flag.DELIVERED_UNSETTLED) != 0)
    twice = open_ & (flags & np.uint32(Flag.SCHEDULED_TWICE) != 0) & ~unsettled
    rows = np.flatnonzero((lost > 0) | unsettled | twice)
    reason = np.where(unsettled, len(LOST_WORDS), np.where(twice, len(LOST_WORDS) + 1, lost))[rows]
    action = np.where(lost > 0, 1, 2)[rows]
    chosen = {name: column[rows] for name, column in messages.items()}
    return pa.Table.from_arrays(
        [
            _dictionary(action, _ACTIONS, _TEXT),
            _dictionary(reason, _REASONS, _TEXT),
            id_column(group, chosen["home"], chosen["random"]),
            _topics(chosen["topic"], names),
            _dictionary(chosen["class"], CLASS_WORDS, _TEXT),
            pa.array(chosen["asked_due_ms"]),
        ],
        schema=REPAIRS_SCHEMA,
    )


def write_parquet(table: pa.Table, path: Path) -> int:
    """Writes a table under its name in one step: a task that is run again, or read meanwhile, leaves a whole file.

    Returns its length in bytes.
    """
    part = path.with_name(f".{path.name}.{uuid4().hex}")  # Spark passes over names that begin with a dot
    plain = {"id", "home", "random"}
    repeating = [field.name for field in table.schema if field.name not in plain and not field.name.endswith("_ms")]
    pq.write_table(table, part, compression="zstd", compression_level=1, use_dictionary=repeating)
    length = part.stat().st_size
    os.replace(part, path)
    return length
