"""Shows operations: their ids, and how far each has come."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from api.port.problem import Problem
from api.port.queries import OperationView, Wish
from storage.format.position import HOUR_MS, INDEX_BITS, INDEX_MAX
from storage.store import Store
from storage.tables.operation_row import DONE, KEPT_MS, STATE_WORDS, Operation, OperationWish, id_of
from storage.tables.registry import OPERATIONS

_ID: Final = re.compile(r"op-([1-9][0-9]{0,18})")


def number_of(id: str) -> int:
    """The number of the operation with this id. Raises `unknown-operation` for text that is no id."""
    found = _ID.fullmatch(id)
    if found is None:
        raise unknown_operation(id)
    return int(found[1])


def unknown_operation(id: str) -> Problem:
    """The Problem for an operation that never was, or that is forgotten."""
    return Problem("unknown-operation", f"there is no operation {id[:40]}; those that ended are kept for 7 days")


def find_operation(store: Store, number: int, now_ms: int) -> Operation:
    """The operation of this number. Raises `unknown-operation`."""
    found = store.catalog.of(OPERATIONS).find(number)
    if found is None or not kept(found, now_ms):
        raise unknown_operation(id_of(number))
    return found


def kept(operation: Operation, now_ms: int) -> bool:
    """True if clients can still ask for it."""
    return not operation.ended or operation.progress.at_ms + KEPT_MS > now_ms


def wish_fields(of: Wish | OperationWish) -> dict[str, Any]:
    """The fields of a wish, which the struct of the port and that of the table share."""
    return {name: getattr(of, name) for name in Wish.__struct_fields__}


def view_operation(operation: Operation) -> OperationView:
    """The operation as it is now."""
    row, now = operation.row, operation.progress
    return OperationView(
        **wish_fields(row),
        id=id_of(row.number),
        state=STATE_WORDS[now.state],
        begun_ms=row.begun_ms,
        ended_ms=now.at_ms if operation.ended else None,
        matched=now.changed + now.skipped if operation.ended else None,
        changed=now.changed,
        prior={"none": now.none, "known": now.known, "unknown": now.unknown},
        skipped={
            "leased": now.leased,
            "settled": now.settled,
            "gone": now.gone,
            "key_taken": now.key_taken,
        },
        index=now.log_index,
        progress=1.0 if now.state == DONE else _share(operation),
    )


def _share(operation: Operation) -> float:
    """How much of its work is done, by the units of its hours. In the order of due times the units of an hour count as
    if they were spread evenly over it. 0 for one that was aborted."""
    row, reached = operation.row, operation.progress.reached
    hours, firsts, ends = (np.frombuffer(column, np.int64) for column in (row.hours, row.firsts, row.ends))
    units, hour = ends - firsts, reached.place >> INDEX_BITS
    if row.rule.moves:
        here = units * np.clip(reached.due_ms - hours * HOUR_MS, 0, HOUR_MS) // HOUR_MS
    else:
        here = np.clip((reached.place & INDEX_MAX) - firsts, 0, units)
    done = np.where(hours < hour, units, np.where(hours == hour, here, 0))
    whole = int(units.sum())
    return round(int(done.sum()) / whole, 4) if whole else 0.0
