"""The part of tests.api.memory_port that is about the ledger: two messages, one of them delivered twice."""

from api.port.ledger import (
    HandOverEntry,
    LedgerCoverage,
    LedgerDuplicate,
    LedgerEntry,
    LedgerPage,
    LedgerQuery,
    LedgerSummary,
    MessageLedger,
    RecordsAsked,
    RecordsFound,
)
from api.port.problem import Problem

AT_MS = 1_790_000_000_125

SIGHT = LedgerCoverage(
    from_ms=AT_MS,
    until_ms=AT_MS + 1000,
    retained_from_ms=AT_MS - 86_400_000,
    unreachable={"n3": "is down, or cannot be reached"},
    gaps=[("n2", AT_MS, AT_MS + 5)],
)


def entry(id: str, *duplicates: LedgerDuplicate) -> LedgerEntry:
    """A message of topic t."""
    return LedgerEntry(
        id=id,
        topic="t",
        kind="delivered_more" if duplicates else "pending",
        flags=["late"] if duplicates else [],
        late_cause="no_leader" if duplicates else "",
        lost="",
        hand_overs=2 if duplicates else 0,
        retries=0,
        created_ms=AT_MS - 5,
        asked_due_ms=AT_MS,
        due_ms=AT_MS,
        first_ms=AT_MS + 1 if duplicates else 0,
        late_ms=1 if duplicates else 0,
        settled_ms=AT_MS + 900 if duplicates else 0,
        mode="pull" if duplicates else "",
        term=4 if duplicates else 0,
        attempt=1 if duplicates else 0,
        node="n1" if duplicates else "",
        code=0,
        duplicates=duplicates,
    )


AGAIN = LedgerDuplicate(
    cause="failover",
    mode="pull",
    at_ms=AT_MS + 800,
    node="n2",
    term=5,
    attempt=1,
    before_ms=AT_MS + 1,
    before_node="n1",
    before_term=4,
    before_attempt=1,
    lease_end_ms=0,
)


class MemoryLedger:
    """`asked` are the queries; `too_much` makes every answer `over-limit`."""

    def __init__(self) -> None:
        self.asked: list[LedgerQuery] = []
        self.too_much = False

    async def ledger(self, query: LedgerQuery) -> LedgerPage:
        """One message a page."""
        self.asked.append(query)
        if self.too_much:
            raise Problem("over-limit", "more than 4 messages fell due in that time")
        if query.cursor is None:
            return LedgerPage([entry("A" * 26, AGAIN)], SIGHT, "next")
        return LedgerPage([entry("B" * 26)], SIGHT)

    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """Two messages."""
        self.asked.append(query)
        return LedgerSummary({"scheduled": 2, "classes": {"delivered_more": 1, "pending": 1}}, SIGHT)

    async def message_ledger(self, id: str) -> MessageLedger:
        """Delivered twice, the first time by a leader that died."""
        if self.too_much:
            raise Problem("over-limit", "n2: more than 4 records lie in that time")
        shown = HandOverEntry(
            at_ms=AT_MS + 1, node="n1", term=4, attempt=1, mode="pull", outcome="unknown", ended_ms=0, code=0
        )
        return MessageLedger(entry(id, AGAIN), [shown], SIGHT)

    async def hand_over_records(self, asked: RecordsAsked) -> RecordsFound:
        """As many bytes as were sent."""
        return RecordsFound("n1", 1, bytes(80 * (len(asked.homes) // 8)), b"", [(1, 2)])
