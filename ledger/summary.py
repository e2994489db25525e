"""The counts of a ledger: a Summary for each bucket, added up to one for all, with checks that its counts agree.

Two equations hold:

scheduled = delivered_once + delivered_more + dead + cancelled + expired + pending + in_flight + lost
          + delivered
duplicates by cause = sum of the messages' duplicates + those scheduled twice
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ledger.columns import Cause, Columns, Flag, LateCause, Lost, MessageClass, word
from ledger.judge import Ledger


class Change(NamedTuple):
    """The failover duplicates of one change of terms. Each repeats a hand-over of the leader that died, whose Lease was
    not committed."""

    duplicates: int
    first_ms: int  # earliest and latest of the earlier hand-overs
    last_ms: int

    @property
    def span_ms(self) -> int:
        """The time from the first to the last hand-over that was repeated."""
        return self.last_ms - self.first_ms

    def __add__(self, other: object) -> Change:
        assert isinstance(other, Change)
        return Change(
            self.duplicates + other.duplicates, min(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms)
        )


Counts = dict[int, int]


@dataclass(slots=True)
class Summary:
    """The counts of a part of the ledger. `+` adds two parts that have no message in common."""

    scheduled: int = 0
    classes: Counts = field(default_factory=dict)  # by MessageClass
    flags: Counts = field(default_factory=dict)  # by Flag
    late_causes: Counts = field(default_factory=dict)  # by LateCause, of the late ones
    lost: Counts = field(default_factory=dict)  # by Lost
    causes: Counts = field(default_factory=dict)  # by Cause, of duplicates
    changes: dict[tuple[int, int], Change] = field(default_factory=dict)  # by (term before, term after)
    strict_failover: int = 0  # failover duplicates of strict topics: must be none
    hand_overs: int = 0
    retries: int = 0
    duplicates: int = 0  # of the messages themselves
    foreign: int = 0
    beyond: int = 0
    topics: dict[int, Counts] = field(default_factory=dict)  # topic -> by MessageClass

    @classmethod
    def of(cls, ledger: Ledger) -> Summary:
        """The counts of the ledger of one bucket."""
        messages, extra = ledger.messages, ledger.duplicates
        kind = messages["class"]
        late = messages["late_cause"][messages["flags"] & np.uint32(Flag.LATE) > 0]
        return cls(
            scheduled=len(kind),
            classes=_counts(kind),
            flags={int(flag): n for flag in Flag if (n := int(np.count_nonzero(messages["flags"] & np.uint32(flag))))},
            late_causes=_counts(late),
            lost=_counts(messages["lost"][messages["lost"] > 0]),
            causes=_counts(extra["cause"]),
            changes=_changes(extra),
            strict_failover=_strict_failover(messages, extra),
            hand_overs=int(messages["hand_overs"].sum()),
            retries=int(messages["retries"].sum()),
            duplicates=int(messages["duplicates"].sum()),
            foreign=ledger.foreign,
            beyond=ledger.beyond,
            topics=_by_topic(messages["topic"], kind),
        )

    def __add__(self, other: Summary) -> Summary:
        changes = dict(self.changes)
        for terms, change in other.changes.items():
            changes[terms] = changes[terms] + change if terms in changes else change
        return Summary(
            scheduled=self.scheduled + other.scheduled,
            classes=_added(self.classes, other.classes),
            flags=_added(self.flags, other.flags),
            late_causes=_added(self.late_causes, other.late_causes),
            lost=_added(self.lost, other.lost),
            causes=_added(self.causes, other.causes),
            changes=changes,
            strict_failover=self.strict_failover + other.strict_failover,
            hand_overs=self.hand_overs + other.hand_overs,
            retries=self.retries + other.retries,
            duplicates=self.duplicates + other.duplicates,
            foreign=self.foreign + other.foreign,
            beyond=self.beyond + other.beyond,
            topics={
                topic: _added(self.topics.get(topic, {}), other.topics.get(topic, {}))
                for topic in sorted(self.topics.keys() | other.topics.keys())
            },
        )

    def wrong(self) -> list[str]:
        """Return a sentence for each count that does not equal the sum that it should equal. Empty if all agree."""
        found: list[str] = []
        if set(self.classes) - set(map(int, MessageClass)):
            found.append(f"messages of no class: {self.classes}")
        if self.scheduled != sum(self.classes.values()):
            found.append(f"{self.scheduled} messages, and {sum(self.classes.values())} in the nine classes")
        by_cause = sum(self.causes.values())
        twice = self.causes.get(Cause.SCHEDULED_TWICE, 0)
        if by_cause != self.duplicates + twice:
            found.append(f"{by_cause} duplicates, {self.duplicates} of the messages and {twice} scheduled twice")
        if self.classes.get(MessageClass.LOST, 0) != sum(self.lost.values()):
            found.append(f"{self.classes.get(MessageClass.LOST, 0)} lost, {sum(self.lost.values())} for a reason")
        if self.late_causes.get(LateCause.NONE, 0):
            found.append(f"{self.late_causes[LateCause.NONE]} late without a cause")
        return found

    def broken(self, duplicate_span_ms: int = 50) -> list[str]:
        """Return a sentence for each promise that did not hold. `duplicate_span_ms` is the bound for
        `Change.span_ms`."""
        found: list[str] = []
        for count, said in (
            (self.classes.get(MessageClass.LOST, 0), "lost"),
            (self.flags.get(Flag.EARLY, 0), "handed over before their due time"),
            (self.flags.get(Flag.DELIVERED_AFTER_CANCEL, 0), "handed over after a cancel"),
            (self.flags.get(Flag.NODES_DISAGREE, 0), "of which the nodes disagree"),
        ):
            if count:
                found.append(f"{count} messages {said}")
        if self.causes.get(Cause.UNEXPLAINED, 0):
            found.append(f"{self.causes[Cause.UNEXPLAINED]} duplicates unexplained")
        if self.strict_failover:
            found.append(f"{self.strict_failover} failover duplicates in strict topics")
        for (before, after), change in sorted(self.changes.items()):
            if change.span_ms > duplicate_span_ms:
                found.append(
                    f"the failover duplicates of term {before} to {after} span {change.span_ms} ms of hand-over time, "
                    f"{duplicate_span_ms} at most"
                )
        return found

    def document(self) -> dict[str, Any]:
        """The counts as a JSON document: every class, cause and flag by its word, those with a count of zero too."""
        return {
            "scheduled": self.scheduled,
            "classes": _worded(MessageClass, self.classes),
            "flags": {word(flag): self.flags.get(flag, 0) for flag in Flag},
            "late_causes": _worded(LateCause, self.late_causes),
            "lost": _worded(Lost, self.lost),
            "causes": _worded(Cause, self.causes),
            "term_changes": [
                {
                    "from_term": before,
                    "to_term": after,
                    "duplicates": change.duplicates,
                    "first_ms": change.first_ms,
                    "last_ms": change.last_ms,
                    "span_ms": change.span_ms,
                }
                for (before, after), change in sorted(self.changes.items())
            ],
            "strict_failover": self.strict_failover,
            "hand_overs": self.hand_overs,
            "retries": self.retries,
            "duplicates": self.duplicates,
            "foreign": self.foreign,
            "beyond": self.beyond,
        }


def _counts(codes: npt.NDArray[np.uint8]) -> Counts:
    counts = np.bincount(codes, minlength=1)
    return {code: int(counts[code]) for code in np.flatnonzero(counts).tolist()}


def _added(one: Counts, other: Counts) -> Counts:
    return {code: one.get(code, 0) + other.get(code, 0) for code in sorted(one.keys() | other.keys())}


def _worded(kind: type[IntEnum], counts: Counts) -> dict[str, int]:
    return {word(member): counts.get(member, 0) for member in kind if member}


def _changes(extra: Columns) -> dict[tuple[int, int], Change]:
    its = np.flatnonzero(extra["cause"] == Cause.FAILOVER)
    before, after, at_ms = extra["before_term"][its], extra["term"][its], extra["before_ms"][its]
    pairs, which = np.unique(np.stack([before, after], 1), axis=0, return_inverse=True)
    count = np.bincount(which.reshape(-1), minlength=len(pairs))
    first_ms = np.full(len(pairs), np.iinfo(np.int64).max)
    last_ms = np.full(len(pairs), np.iinfo(np.int64).min)
    np.minimum.at(first_ms, which.reshape(-1), at_ms)
    np.maximum.at(last_ms, which.reshape(-1), at_ms)
    return {
        (int(one), int(two)): Change(int(count[row]), int(first_ms[row]), int(last_ms[row]))
        for row, (one, two) in enumerate(pairs)
    }


def _strict_failover(messages: Columns, extra: Columns) -> int:
    """Count failover duplicates of messages with the flag STRICT. The rows of both tables are in order of home."""
    home = extra["home"][extra["cause"] == Cause.FAILOVER]
    if not len(home):
        return 0
    row = np.searchsorted(messages["home"], home)
    return int(np.count_nonzero(messages["flags"][row] & np.uint32(Flag.STRICT)))


def _by_topic(topic: npt.NDArray[np.uint32], kind: npt.NDArray[np.uint8]) -> dict[int, Counts]:
    numbers, which = _ranked(topic)
    table = np.bincount(which * 16 + kind, minlength=16 * len(numbers)).reshape(-1, 16)
    return {
        number: {code: int(row[code]) for code in np.flatnonzero(row).tolist()}
        for number, row in zip(numbers.tolist(), table, strict=True)
    }


def _ranked(topic: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the different topics, rising, and for each row the ordinal of its topic among them. Topic numbers count up
    from 1, so most are small. A table by number then saves the sort."""
    most = int(topic.max(initial=0))
    if most > len(topic) + 4096:
        numbers, which = np.unique(topic, return_inverse=True)
        return numbers, which
    there = np.bincount(topic, minlength=1) > 0
    return np.flatnonzero(there).astype(np.uint32), (np.cumsum(there) - 1)[topic]
