"""Makes the rows of the ledger readable: ids, names and words in place of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from api.port.ledger import HandOverEntry, LedgerDuplicate, LedgerEntry
from ledger.columns import CAUSE_WORDS, CLASS_WORDS, LATE_WORDS, LOST_WORDS, Columns, flag_words
from node.handover.delivery_log import DELIVERED, FAILED, GIVEN_BACK, LATE, PULL, PUSH
from replication.apply.message.attempt_order import fence
from storage.format.array import I64, U64
from storage.format.message_id import encode_ids
from storage.format.rows import put_rows, take_rows
from storage.record.delivery_record import DELIVERY, END, START, Deliveries

MODES: Final = {0: "", PULL: "pull", PUSH: "push"}
OUTCOMES: Final = {DELIVERED: "delivered", FAILED: "failed", GIVEN_BACK: "given_back", LATE: "late"}
UNKNOWN: Final = "unknown"
#: Hand-overs that are shown of one message, the newest. It may have been handed over 60,000 times a term.
HAND_OVERS_MAX: Final = 500

_LATE: Final = ("", *LATE_WORDS[1:])
_LOST: Final = ("", *LOST_WORDS[1:])

Name = Callable[[int], str]
"""A function from a number in records to a name, "" if no name belongs to it."""


def show_entries(
    group: int,
    messages: Columns,
    duplicates: Columns,
    rows: I64,
    *,
    topic: Name,
    node: Name,
    twin: Callable[[int], int],
) -> list[LedgerEntry]:
    """Return an entry for each of the messages in `rows`, in this order, with its duplicates. `messages` and
    `duplicates` are rows of the ledger. `topic` and `node` return the name for a number.

    A message may be the repetition of another one. For the home of that other one, `twin` returns the random bits of
    its id.
    """
    ids = _texts(group, messages["home"][rows], messages["random"][rows])
    of_each = _by_home(duplicates, messages["home"][rows])
    columns = {name: column[rows].tolist() for name, column in messages.items()}
    return [
        LedgerEntry(
            id=ids[row],
            topic=topic(columns["topic"][row]),
            kind=CLASS_WORDS[columns["class"][row]],
            flags=flag_words(columns["flags"][row]),
            late_cause=_LATE[columns["late_cause"][row]],
            lost=_LOST[columns["lost"][row]],
            hand_overs=columns["hand_overs"][row],
            retries=columns["retries"][row],
            created_ms=columns["created_ms"][row],
            asked_due_ms=columns["asked_due_ms"][row],
            due_ms=columns["due_ms"][row],
            first_ms=columns["first_ms"][row],
            late_ms=columns["late_ms"][row],
            settled_ms=columns["settled_ms"][row],
            mode=MODES[columns["mode"][row]],
            term=columns["term"][row],
            attempt=columns["attempt"][row],
            node=node(columns["node"][row]),
            code=columns["code"][row],
            duplicates=_show_duplicates(group, duplicates, of_each[row], node, twin),
        )
        for row in range(len(rows))
    ]


def _texts(group: int, homes: U64, random: U64) -> list[str]:
    texts: list[str] = encode_ids(group, np.ascontiguousarray(homes), np.ascontiguousarray(random)).astype("U").tolist()
    return texts


def _by_home(duplicates: Columns, homes: U64) -> list[slice]:
    """Return for each message the slice of its rows in `duplicates`, which are in order of home."""
    known = np.ascontiguousarray(duplicates["home"])
    first, last = known.searchsorted(homes, "left").tolist(), known.searchsorted(homes, "right").tolist()
    return [slice(*edges) for edges in zip(first, last, strict=True)]


def _show_duplicates(
    group: int, duplicates: Columns, rows: slice, node: Name, twin: Callable[[int], int]
) -> Sequence[LedgerDuplicate]:
    if rows.start == rows.stop:
        return ()
    columns = {name: column[rows].tolist() for name, column in duplicates.items()}
    return [
        LedgerDuplicate(
            cause=CAUSE_WORDS[columns["cause"][row]],
            mode=MODES[columns["mode"][row]],
            at_ms=columns["at_ms"][row],
            node=node(columns["node"][row]),
            term=columns["term"][row],
            attempt=columns["attempt"][row],
            before_ms=columns["before_ms"][row],
            before_node=node(columns["before_node"][row]),
            before_term=columns["before_term"][row],
            before_attempt=columns["before_attempt"][row],
            lease_end_ms=columns["lease_end_ms"][row],
            other=_other(group, columns["home"][row], columns["other"][row], twin),
        )
        for row in range(rows.stop - rows.start)
    ]


def _other(group: int, home: int, other: int, twin: Callable[[int], int]) -> str:
    if other == home:
        return ""
    return _texts(group, np.array([other], np.uint64), np.array([twin(other)], np.uint64))[0]


def show_hand_overs(records: Deliveries, node: Name) -> list[HandOverEntry]:
    """Return the newest HAND_OVERS_MAX hand-overs of one message, made from its records. They are in order of (term,
    attempt), then of time."""
    starts = take_rows(records, np.flatnonzero(records["kind"] == START))
    order = np.lexsort((starts["at_ms"], starts["attempt"], starts["term"]))[-HAND_OVERS_MAX:]
    starts = take_rows(starts, order)
    ends, has_end = _last_ends(records, fence(starts["term"], starts["attempt"]))
    return [
        HandOverEntry(
            at_ms=int(row["at_ms"]),
            node=node(int(row["node"])),
            term=int(row["term"]),
            attempt=int(row["attempt"]),
            mode=MODES[int(row["mode"])],
            outcome=OUTCOMES.get(int(end["outcome"]), UNKNOWN) if ended else UNKNOWN,
            ended_ms=int(end["at_ms"]) if ended else 0,
            code=int(end["code"]) if ended else 0,
        )
        for row, end, ended in zip(starts, ends, has_end.tolist(), strict=True)
    ]


def _last_ends(records: Deliveries, hand_overs: U64) -> tuple[Deliveries, npt.NDArray[np.bool_]]:
    """Return for each of these hand-overs its end record, and a boolean array that is True where there is one. Where
    there is none, the row has no meaning. If there are several, the last one counts, because later outcomes are
    recorded later."""
    ends = take_rows(records, np.flatnonzero(records["kind"] == END))
    of = fence(ends["term"], ends["attempt"])
    order = of.argsort(kind="stable")
    row = of[order].searchsorted(hand_overs, "right") - 1
    has_end = row >= 0
    has_end[has_end] = of[order[row[has_end]]] == hand_overs[has_end]
    found = np.zeros(len(hand_overs), DELIVERY)
    put_rows(found, has_end, take_rows(ends, order[row[has_end]]))
    return found, has_end
