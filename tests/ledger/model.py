"""The ledger's rules once more, message by message, in plain Python that sorts small lists: what `judge` is held to.

Slow and without arrays on purpose; it shares the words of ledger.columns with the real one and nothing else.
"""

from __future__ import annotations

import itertools

from ledger.bucket import Bucket, Context
from ledger.columns import DELIVERED_CLASSES, Cause, Flag, LateCause, Lost, MessageClass
from storage.catalog.doubt import CLOCKS_MS
from storage.format.position import EVER_MS
from storage.format.rows import BY_RECEIPT
from storage.tables.topic import NO_PAUSE, Pause
from tests.ledger.model_records import Message, Row, all_see, messages_of, name, rows_of, sees

PUSH = 2
LEASED, DELIVERED, CANCELLED, MOVED, DEAD, EXPIRED, RELEASED, FORWARDED = range(1, 9)
ENDED = {
    DELIVERED: MessageClass.DELIVERED_ONCE,
    CANCELLED: MessageClass.CANCELLED,
    DEAD: MessageClass.DEAD,
    EXPIRED: MessageClass.EXPIRED,
}


class Verdict:
    """One message judged: `row` as in LEDGER, `duplicates` as in DUPLICATES."""

    def __init__(self, message: Message, bucket: Bucket, context: Context) -> None:
        self.message, self.context, self.bucket = message, context, bucket
        self.flags = Flag(0)
        self.duplicates: list[Row] = []
        self.retries = 0
        self.lost = Lost.NONE
        self.late_cause = LateCause.NONE
        self.newest = message.settles[-1] if message.settles else None
        what = self.newest["what"] if self.newest else 0
        self.moved = what == FORWARDED
        self.settled = self.newest if what in ENDED else None
        self.settled_ms = self.settled["at_ms"] if self.settled else 0
        self.records = message.settles + message.abroad
        forwards = [row for row in message.settles if row["what"] == FORWARDED]
        self.place = next((row for row in message.places if forwards and row["place"] == forwards[-1]["when"]), None)
        self.kind = self._class(what)
        self._repeats()
        if self.kind == MessageClass.DELIVERED_ONCE and self.duplicates:
            self.kind = MessageClass.DELIVERED_MORE
        self._flag()
        self._trace()
        self._lateness()
        self._doubt()
        self._after_all()

    # -- what is known of one hand-over

    def leases(self, start: Row) -> list[Row]:
        """Its Leases on record, extensions among them."""
        return [row for row in self.records if row["what"] == LEASED and name(row) == name(start)]

    def failures(self, start: Row) -> list[Row]:
        """Records that say that it failed or that its message was given up."""
        return [
            row
            for row in self.records
            if row["what"] in (FORWARDED, MOVED, DEAD)
            and row["code"] not in (2000, 2001, 2002)
            and name(row) == name(start)
        ]

    def resends(self, until_ms: int) -> int:
        """How often it was made due again by then after it was delivered."""
        its = [row for row in self.records if row["what"] == FORWARDED and row["code"] == 2002]
        return sum(row["at_ms"] <= until_ms for row in its)

    def ends(self, start: Row, *outcomes: int) -> list[Row]:
        """Its end records with one of these outcomes."""
        return [row for row in self.message.ends if name(row) == name(start) and row["outcome"] in outcomes]

    def known(self, start: Row) -> bool:
        """Whether anything tells what came of it."""
        told = any(not (row["what"] == DEAD and row["code"] in (1007, 1008)) for row in self.failures(start))
        told |= any(row["what"] == DELIVERED and name(row) == name(start) for row in self.records)
        return told or any(name(row) == name(start) for row in self.message.ends)

    # -- the verdict

    def _class(self, what: int) -> MessageClass:
        if what in ENDED:
            return ENDED[what]
        newest = self.newest
        if self.moved:
            assert newest is not None
            there = [row for row in self.message.abroad if row["place"] == newest["when"]]
            newest = there[-1] if there else None
        running = newest is not None and newest["what"] == LEASED and newest["when"] > self.context.until_ms
        if self.message.starts:
            last = self.message.starts[-1]
            just = last["at_ms"] > self.context.until_ms - self.context.grace_ms
            running |= just and not self.leases(last) and not self.known(last)
        return MessageClass.IN_FLIGHT if running else MessageClass.PENDING

    def _repeats(self) -> None:
        starts = self.message.starts
        for before, later in itertools.pairwise(starts):
            cause = self._cause(before, later)
            if cause is None:
                self.retries += 1
                continue
            leases = self.leases(before)
            self.duplicates.append(
                {
                    "home": self.message.home,
                    "other": self.message.home,
                    "cause": cause,
                    **{field: later[field] for field in ("mode", "term", "attempt", "node", "at_ms")},
                    "before_term": before["term"],
                    "before_attempt": before["attempt"],
                    "before_node": before["node"],
                    "before_ms": before["at_ms"],
                    "lease_end_ms": leases[-1]["when"] if leases else 0,
                }
            )
            if name(before) == name(later) and before["node"] != later["node"]:
                self.flags |= Flag.NODES_DISAGREE

    def _cause(self, before: Row, later: Row) -> Cause | None:
        """None: a retry."""
        if name(before) == name(later):
            return Cause.UNEXPLAINED
        at_ms = later["at_ms"]
        if self.resends(at_ms + self.context.skew_ms) > self.resends(before["at_ms"]):
            return Cause.RESENT
        failures = self.failures(before)
        if failures and (self.leases(later) or min(row["at_ms"] for row in failures) <= at_ms + self.context.skew_ms):
            return None
        if any(row["at_ms"] <= at_ms for row in self.ends(before, 2, 3)):
            return None
        leases = self.leases(before)
        if not leases or min(row["at_ms"] for row in leases) > at_ms:
            return Cause.FAILOVER if later["term"] > before["term"] else Cause.UNEXPLAINED
        end_ms = leases[-1]["when"] if self.leases(later) else min(row["when"] for row in leases)
        if end_ms > at_ms:
            return Cause.UNEXPLAINED
        if any(row["what"] == DELIVERED and name(row) == name(before) for row in self.records):
            return Cause.ACKED_LATE if at_ms <= self.settled_ms + self.context.grace_ms else Cause.UNEXPLAINED
        done = self.ends(before, 1, 4)
        if self.ends(before, 4) or (done and min(row["at_ms"] for row in done) >= at_ms):
            return Cause.ACKED_LATE
        return Cause.UNKNOWN_OUTCOME if before["mode"] == PUSH else Cause.LEASE_ENDED

    def _flag(self) -> None:
        message, context = self.message, self.context
        if self.retries:
            self.flags |= Flag.RETRIED
        for row in message.settles:
            if row["what"] == FORWARDED and row["code"] == 2000:
                self.flags |= Flag.RESCHEDULED
            if row["what"] == FORWARDED and row["code"] == 2001:
                self.flags |= Flag.REDRIVEN
            if row["what"] == FORWARDED and row["code"] == 2002:
                self.flags |= Flag.RESENT
        for row in message.abroad:
            if row["what"] == FORWARDED and row["code"] in (2000, 2001, 2002):
                self.flags |= (Flag.RESCHEDULED, Flag.REDRIVEN, Flag.RESENT)[row["code"] - 2000]
        for at, start in enumerate(message.starts):
            running = at + 1 == len(message.starts) and self.kind == MessageClass.IN_FLIGHT
            if start["at_ms"] < start["asked_due_ms"]:
                self.flags |= Flag.EARLY
            if not running and not self.known(start):
                self.flags |= Flag.UNKNOWN_OUTCOME
            if self.kind == MessageClass.CANCELLED and self.newest:
                skew_ms = 0 if start["node"] == self.newest["node"] else context.skew_ms
                if start["at_ms"] > self.settled_ms + skew_ms:
                    self.flags |= Flag.DELIVERED_AFTER_CANCEL
        said = any(
            row["outcome"] in (1, 4) and row["at_ms"] <= context.until_ms - context.grace_ms for row in message.ends
        )
        delivered = self.kind in (MessageClass.DELIVERED_ONCE, MessageClass.DELIVERED_MORE)
        if (said or message.receipts) and not delivered:
            self.flags |= Flag.DELIVERED_UNSETTLED
        if message.unit["due_ms"] < context.from_ms:
            self.flags |= Flag.OUTSIDE_WINDOW
        if self.bucket.disputed is not None and self.bucket.disputed[message.at]:
            self.flags |= Flag.NODES_DISAGREE
        topic = context.topics.get(message.unit["topic"])
        if topic is not None and topic.strict:
            self.flags |= Flag.STRICT

    def _trace(self) -> None:
        message, context = self.message, self.context
        told = {name(row) for row in message.starts}
        heard = {row["term"]: row["seen_ms"] if not row["ended_ms"] else 1 << 62 for row in rows_of(context.terms)}
        led = {row["term"]: row["node"] for row in rows_of(context.terms)}
        if self.moved and self.place is None:
            self.flags |= Flag.RECORDS_MISSING
        for row in self.records:
            untold = row["what"] == LEASED and name(row) not in told
            seen = row["at_ms"] < heard.get(row["term"], -(1 << 62)) and sees(
                context, row["node"], row["at_ms"], row["at_ms"]
            )
            if untold and (not seen or row["code"] & BY_RECEIPT):
                self.flags |= Flag.RECORDS_MISSING
        if self.settled is None or self.settled["what"] != DELIVERED or name(self.settled) in told:
            return
        leases = [row for row in self.leases(self.settled) if not row["code"] & BY_RECEIPT]
        settler = self.newest["node"] if self.newest else 0
        at_ms = settled_ms = self.settled_ms + (0 if led.get(self.settled["term"]) == settler else CLOCKS_MS)
        if leases and leases[0]["at_ms"] > 0:
            leased_ms = leases[0]["at_ms"]
            at_ms = max(leased_ms, at_ms)
            until_ms = max(leased_ms, settled_ms + context.skew_ms)
            seen = sees(context, leases[0]["node"], leased_ms, until_ms)
        else:
            from_ms = min(self.asked_due_ms, self.settled_ms) - context.skew_ms
            seen = all_see(context, from_ms, settled_ms + context.skew_ms)
        seen = seen and at_ms < heard.get(self.settled["term"], -(1 << 62))
        self.flags |= Flag.UNTRACED if seen else Flag.RECORDS_MISSING
        if seen and not message.starts and not message.receipts and not self.flags & Flag.OUTSIDE_WINDOW:
            self.kind, self.lost = MessageClass.LOST, Lost.NO_TRACE

    @property
    def created_ms(self) -> int:
        """0: not known."""
        return self.message.header["created_ms"] if self.message.header is not None else 0

    @property
    def asked_due_ms(self) -> int:
        """As last asked for."""
        if self.place is not None:
            asked_due_ms: int = self.place["asked_due_ms"]
            return asked_due_ms
        header = self.message.header
        source = header["asked_due_ms"] if header is not None and header["size"] else self.message.unit["due_ms"]
        return int(source)

    @property
    def due_ms(self) -> int:
        """As last stored."""
        return int(self.place["due_ms"] if self.place is not None else self.message.unit["due_ms"])

    @property
    def pause(self) -> Pause:
        """The newest one of its topic."""
        topic = self.context.topics.get(int(self.message.unit["topic"]))
        return NO_PAUSE if topic is None else topic.pause

    def _lateness(self) -> None:
        if not self.message.starts:
            return
        context, unit = self.context, self.message.unit
        first = self.message.starts[0]
        at_ms, asked_ms = first["at_ms"], first["asked_due_ms"]
        if at_ms - asked_ms <= context.late_ms:
            return
        self.flags |= Flag.LATE
        moved_ms = max(
            (
                row["at_ms"]
                for row in self.records
                if row["what"] == FORWARDED and row["code"] == 2000 and row["at_ms"] <= at_ms
            ),
            default=0,
        )
        since_ms = max(asked_ms, self.created_ms, moved_ms)
        if at_ms - since_ms <= context.late_ms:
            self.late_cause = LateCause.SCHEDULED_LATE
            return
        terms = rows_of(context.terms)
        for row, term in enumerate(terms):
            if term["term"] == first["term"] and term["begun_ms"]:
                end_ms = max(terms[row - 1]["ended_ms"], 0) or terms[row - 1]["seen_ms"] if row else -(2**62)
                if end_ms <= since_ms < term["begun_ms"] and at_ms <= term["begun_ms"] + context.grace_ms:
                    self.late_cause = LateCause.NO_LEADER
                    return
        held_ms = self.pause.until_ms - max(self.pause.since_ms, since_ms)
        if self.pause.until_ms <= at_ms and held_ms > 0 and 2 * held_ms >= at_ms - since_ms:
            self.late_cause = LateCause.PAUSE
            return
        slot = (max(asked_ms, moved_ms) if moved_ms else unit["due_ms"]) // 1000
        in_slot = first["tick"] == slot and not moved_ms and first["local_index"] > unit["local_index"]
        waited = first["tick"] > slot or in_slot
        if not waited:
            self.late_cause = LateCause.DISPATCH
        else:
            push = first["mode"] == PUSH
            self.late_cause = LateCause.WAITING_FOR_RECEIVER if push else LateCause.WAITING_FOR_CONSUMER

    def _doubt(self) -> None:
        places = [row["due_ms"] for row in self.message.places]
        from_ms = max(min(self.message.unit["due_ms"], self.due_ms, *places), self.created_ms)
        until_ms = self.settled_ms or self.context.until_ms
        gaps = rows_of(self.context.gaps)
        hidden = any(from_ms < gap["until_ms"] and until_ms >= gap["from_ms"] for gap in gaps)
        restored = self.bucket.restored
        hidden |= restored is not None and bool(restored[self.message.at])
        if hidden:
            self.flags |= Flag.RECORDS_MISSING
        if self.flags & Flag.RECORDS_MISSING and self.kind == MessageClass.DELIVERED_ONCE:
            self.kind = MessageClass.DELIVERED

    def _after_all(self) -> None:
        message, context = self.message, self.context
        first_ms = message.starts[0]["at_ms"] if message.starts else 0
        certain = not self.flags & (Flag.OUTSIDE_WINDOW | Flag.RECORDS_MISSING)
        if self.kind == MessageClass.PENDING and self.due_ms < context.until_ms - context.grace_ms:
            self.flags |= Flag.OVERDUE
            if self.pause.until_ms == EVER_MS and not message.starts:
                self.late_cause = LateCause.PAUSE
            held_ms = min(self.pause.until_ms, context.until_ms) - max(self.pause.since_ms, self.due_ms)
            waited_ms = context.until_ms - self.due_ms - max(held_ms, 0)
            waits = self.pause.until_ms == EVER_MS or int(message.unit["topic"]) in context.held_topics
            long_ago = context.lost_after_ms and waited_ms > context.lost_after_ms and not waits
            told = all_see(context, self.due_ms, context.until_ms - context.grace_ms)
            if long_ago and not message.starts and certain and told:
                self.kind, self.lost = MessageClass.LOST, Lost.NEVER_HANDED_OVER
        asked = context.receipt_topics is None or message.unit["topic"] in context.receipt_topics
        asked &= context.receipts_until_ms > context.receipts_from_ms and first_ms >= context.receipts_from_ms
        asked &= max(first_ms, self.settled_ms) + context.grace_ms < context.receipts_until_ms
        if asked and first_ms > 0 and not message.receipts:
            self.flags |= Flag.NOT_RECEIVED
            delivered = self.kind in DELIVERED_CLASSES
            if delivered and not self.flags & Flag.OUTSIDE_WINDOW:
                self.kind, self.lost = MessageClass.LOST, Lost.NEVER_RECEIVED

    @property
    def row(self) -> Row:
        """As in LEDGER."""
        message = self.message
        first = message.starts[0] if message.starts else None
        return {
            "home": message.home,
            "random": message.header["random"] if message.header else 0,
            "topic": message.unit["topic"],
            "class": self.kind,
            "late_cause": self.late_cause,
            "lost": self.lost,
            "mode": first["mode"] if first else 0,
            "flags": self.flags,
            "hand_overs": len(message.starts),
            "retries": self.retries,
            "duplicates": len(self.duplicates),
            "received": len(message.receipts),
            "created_ms": self.created_ms,
            "asked_due_ms": self.asked_due_ms,
            "due_ms": self.due_ms,
            "first_ms": first["at_ms"] if first else 0,
            "late_ms": first["at_ms"] - first["asked_due_ms"] if first else 0,
            "settled_ms": self.settled_ms,
            "term": first["term"] if first else 0,
            "attempt": first["attempt"] if first else 0,
            "node": first["node"] if first else 0,
            "code": self.settled["code"] if self.settled else 0,
        }


def judge_slowly(bucket: Bucket, context: Context) -> tuple[list[Row], list[Row], int, int]:
    """(LEDGER rows, DUPLICATES rows, foreign, beyond) as `judge` gives them, without twins."""
    messages, foreign, beyond = messages_of(bucket, context.until_ms)
    verdicts = [Verdict(message, bucket, context) for message in messages.values()]
    duplicates = [
        {**row, "random": verdict.row["random"], "topic": verdict.row["topic"]}
        for verdict in verdicts
        for row in verdict.duplicates
    ]
    return [verdict.row for verdict in verdicts], duplicates, foreign, beyond
