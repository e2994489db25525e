"""What of an hour is still to be handed over, in dispatch order: rows that fill the wheel and the ready windows.

One pass over the index with the states beside it; nothing is kept. With a limit the pass holds at most twice that many
rows, so that a backlog of any size can be read in pieces.
"""

import numpy as np

from storage.columns import I64, U64
from storage.format import Units
from storage.hour import Hour
from storage.position import INDEX_BITS
from storage.slot import SlotColumns


def second_pending(hour: Hour, second: int) -> SlotColumns:
    """The pending units of one second, in order of (due_ms, local_index)."""
    units = hour.second(second)
    keep = hour.states().pending(units["global_index"].astype(np.int64))
    return _ordered(_columns(hour.number, units[keep]))


def hour_pending(hour: Hour, before_ms: int | None, topic: int | None, limit: int | None) -> SlotColumns:
    """The pending units of an hour in order of (due_ms, local_index): those due before `before_ms`, of `topic`, and of
    these the first `limit`; None does not restrict."""
    assert limit is None or limit > 0, f"limit {limit}"
    states = hour.states()
    held: list[SlotColumns] = []
    count = 0
    for units in hour.all_units():
        keep = states.pending(units["global_index"].astype(np.int64))
        if before_ms is not None:
            keep &= units["due_ms"] < before_ms
        if topic is not None:
            keep &= units["topic"] == topic
        rows = _columns(hour.number, units[keep])
        held.append(rows)
        count += len(rows)
        if limit is not None and count >= 2 * limit:
            first = _ordered(_joined(held)).select(slice(limit))
            held, count = [first], limit
            # one due at the same millisecond but read later comes after all of these
            before_ms = int(first.due_ms[-1])
    return _ordered(_joined(held)).select(slice(limit))


def _columns(number: int, units: Units) -> SlotColumns:
    """Columns of units, copied so that the block they were read in can go."""
    position: U64 = units["global_index"] | np.uint64(number << INDEX_BITS)
    return SlotColumns(
        units["due_ms"].copy(),
        position,
        units["local_index"].copy(),
        units["topic"].copy(),
        units["tags"].copy(),
        units["priority"].copy(),
    )


def _joined(parts: list[SlotColumns]) -> SlotColumns:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return SlotColumns.empty()
    return SlotColumns(
        np.concatenate([part.due_ms for part in parts]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.local_index for part in parts]),
        np.concatenate([part.topic for part in parts]),
        np.concatenate([part.tags for part in parts]),
        np.concatenate([part.priority for part in parts]),
    )


def _ordered(rows: SlotColumns) -> SlotColumns:
    """By due_ms; equal ones are in arrival order already, which is the order of local_index within their second."""
    due_ms: I64 = rows.due_ms
    if len(rows) < 2 or bool((due_ms[1:] >= due_ms[:-1]).all()):
        return rows
    return rows.select(np.argsort(due_ms, kind="stable"))
