"""One message's life, told record by record in the way the node writes it, and what the ledger says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ledger.bucket import ABROAD, PLACE, RECEIPT, SPAN, TERM, Bucket, Context, Rows, Topic
from ledger.columns import Cause, Flag, LateCause, Lost, MessageClass
from ledger.judge import Ledger, judge
from storage.format.position import INDEX_BITS
from storage.format.rows import SETTLE, UNIT
from storage.format.states import LEASED
from storage.record.delivery_record import DELIVERY, END, PULL, START
from storage.record.record import HEADER

HOUR = 490_000
T = HOUR * 3_600_000 + 600_000
"""When the message is due."""
HOME = HOUR << INDEX_BITS
AWAY = HOME | 1
LEASE = 30_000
RANDOM = 77


@dataclass
class Life:
    """Records of one message, times relative to its due time. Leaders: node 1 in term 5, node 2 in term 6."""

    mode: int = PULL
    created: int = -60_000
    settles: list[tuple[Any, ...]] = field(default_factory=list)
    abroad: list[tuple[Any, ...]] = field(default_factory=list)
    deliveries: list[tuple[Any, ...]] = field(default_factory=list)
    place: Rows = field(default_factory=lambda: np.zeros(0, PLACE))
    receipts: int = 0

    def start(self, at: int, term: int = 5, attempt: int = 1, *, tick: int = 0, asked: int = 0, node: int = 0) -> Life:
        """A hand-over begins; `tick` seconds after the due time's, `asked` the due time asked for then."""
        self.deliveries.append((START, at, term, attempt, 0, T // 1000 + tick, asked, node or term - 4))
        return self

    def end(self, at: int, outcome: int, term: int = 5, attempt: int = 1) -> Life:
        """The node's account of what came of it."""
        self.deliveries.append((END, at, term, attempt, outcome, 0, 0, term - 4))
        return self

    def settle(
        self, what: int, at: int, term: int = 5, attempt: int = 1, *, when: int = 0, code: int = 0, node: int = 0
    ) -> Life:
        """A settle record at home; `when` is a place, or relative."""
        self.settles.append((what, at, term, attempt, when, code, node))
        return self

    def lease(self, at: int, term: int = 5, attempt: int = 1, *, until: int | None = None) -> Life:
        """Its Lease, at home."""
        return self.settle(LEASED, at, term, attempt, when=at + LEASE if until is None else until)

    def made(self, at: int, term: int = 5, attempt: int = 1, *, asked: int = 0) -> Life:
        """A hand-over with its Lease on record."""
        return self.start(at, term, attempt, asked=asked).lease(at, term, attempt)

    def away(self, what: int, at: int, term: int = 5, attempt: int = 1, *, when: int = 0, code: int = 0) -> Life:
        """A settle record at the place it was moved to."""
        self.abroad.append((what, at, term, attempt, when, code))
        return self

    def stands_away(self, due: int, asked: int = 0) -> Life:
        """The unit at that place."""
        self.place = np.array([(HOME, AWAY, T + due, T + asked, 1, 0, 0)], PLACE)
        return self

    def judged(self, **context: Any) -> Judged:
        """What the ledger says."""
        unit, header = np.zeros(1, UNIT), np.zeros(1, HEADER)
        unit["due_ms"], unit["kind"], unit["topic"] = T, 1, 1
        header["size"], header["random"], header["asked_due_ms"], header["created_ms"] = 96, RANDOM, T, T + self.created
        settles = np.zeros(len(self.settles), SETTLE)
        for row, (what, at, term, attempt, when, code, node) in zip(settles, self.settles, strict=True):
            row["what"], row["at_ms"], row["term"], row["attempt"], row["code"] = what, T + at, term, attempt, code
            row["when"], row["node"] = when if when >= HOME else T + when, node or max(term - 4, 1)
        abroad = np.zeros(len(self.abroad), ABROAD)
        for order, (row, (what, at, term, attempt, when, code)) in enumerate(zip(abroad, self.abroad, strict=True)):
            row["home"], row["place"], row["order"], row["when"] = HOME, AWAY, order, T + when
            row["what"], row["at_ms"], row["term"], row["attempt"], row["code"] = what, T + at, term, attempt, code
            row["node"] = max(term - 4, 1)
        deliveries = np.zeros(len(self.deliveries), DELIVERY)
        for row, (kind, at, term, attempt, outcome, tick, asked, node) in zip(deliveries, self.deliveries, strict=True):
            row["home"], row["random"], row["kind"], row["mode"], row["at_ms"] = HOME, RANDOM, kind, self.mode, T + at
            row["term"], row["attempt"], row["node"], row["tick"], row["outcome"] = term, attempt, node, tick, outcome
            row["asked_due_ms"] = T + asked if kind == START else 0
        receipts = np.zeros(self.receipts, RECEIPT)
        receipts["home"], receipts["random"] = HOME, RANDOM
        bucket = Bucket(
            0, HOUR, 0, unit, settles, header, deliveries, places=self.place, abroad=abroad, receipts=receipts
        )
        return Judged(judge(bucket, context_of(**context)))


def told(term: int, node: int, begun_ms: int, seen_ms: int, *, ended_ms: int = 0, before: int = -1) -> tuple[int, ...]:
    """A row of TERM, marked if it names a term before."""
    return term, node, 0, begun_ms, ended_ms, seen_ms, begun_ms, max(before, 0), int(before >= 0), 0, seen_ms


def context_of(**given: Any) -> Context:
    """Terms 5 and 6, all accounts whole, records until ten minutes after the due time."""
    everywhere = np.array([(node, 0, 0, 0, 1 << 60) for node in (1, 2, 3)], SPAN)
    terms = np.array([told(5, 1, T - 500_000, T + 50), told(6, 2, T + 700, T + 600_000)], TERM)
    fields = {
        "from_ms": 0,
        "until_ms": T + 600_000,
        "terms": terms,
        "nodes": (1, 2, 3),
        "covered": everywhere,
        "topics": {1: Topic("orders")},
        **given,
    }
    return Context(**fields)


class Judged:
    """One message's row and its duplicates, with words in place of numbers."""

    def __init__(self, ledger: Ledger) -> None:
        (self.kind,) = map(MessageClass, ledger.messages["class"].tolist())
        self.flags = Flag(int(ledger.messages["flags"][0]))
        self.causes = [Cause(cause) for cause in ledger.duplicates["cause"].tolist()]
        self.late_cause = LateCause(int(ledger.messages["late_cause"][0]))
        self.lost = Lost(int(ledger.messages["lost"][0]))
        self.row = {name: int(column[0]) for name, column in ledger.messages.items()}
        self.duplicates = ledger.duplicates
        self.beyond = ledger.beyond
