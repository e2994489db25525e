"""Messages that wait: bounded by their number and by their bytes, and let go of when they are taken."""

import asyncio

import pytest

import node.write.message_queue
from api.contract.checker import pack_headers
from api.port.port import MessageIn
from api.port.problem import Problem
from node.port.draft import encode_draft
from node.runtime.entropy import Entropy
from node.write.message_queue import MessageQueue
from storage.format.position import HOUR_MS


def test_the_bodies_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """200,000 small messages may wait, not as many of 256 KB: those would fill the memory while a disk stands still.
    One request always may; what is taken, or refused, has room again."""
    monkeypatch.setattr(node.write.message_queue, "WAITING_BYTES_MAX", 1_000)

    async def play() -> None:
        queue = MessageQueue(Entropy(), 200_000)

        def add(size: int, count: int = 1) -> None:
            queue.add([MessageIn("t", b"x" * size, "", None, None)] * count)

        for empty in (lambda: queue.take(0), queue.refuse):
            add(5_000)
            with pytest.raises(Problem, match="over-limit"):
                add(1)
            empty()
            add(400, 2)
            with pytest.raises(Problem, match="over-limit"):
                add(201)
            add(200)
            empty()
            assert queue.rows == 0

    asyncio.run(play())


@pytest.mark.parametrize(
    ("messages", "entries"),
    [
        ([MessageIn("t", b"1", delay_ms=hour * HOUR_MS) for hour in range(9_900)], [1_321] * 7 + [653]),
        ([MessageIn(f"t{number}", b"1") for number in range(500)], [189, 189, 122]),
        ([MessageIn("t", b"1", delay_ms=row % 720 * HOUR_MS) for row in range(30_000)], [5_140] * 5 + [4_300]),
        ([MessageIn("t", b"1", delay_ms=row // 600 * HOUR_MS) for row in range(60_000)], [9_611] * 6 + [2_334]),
        ([MessageIn(f"t{row // 3}", b"1", due_ms=1) for row in range(1_000)], [544, 456]),
        ([MessageIn("t", b"1", extension=bytes(1_000))] * 3_000, [1_347, 1_347, 306]),
    ],
)
def test_b14_the_hours_and_topics_that_an_entry_names_have_their_price(
    messages: list[MessageIn], entries: list[int]
) -> None:
    """9,900 messages for as many new hours were one entry: every node applied it for up to 1.6 s, and nobody was left
    to lead. A batch is cut by what its rows cost, and answered as one. Entries of 64 hours, new or not, were too small:
    batches over 30 days went a sixth as fast."""

    async def play() -> None:
        queue = MessageQueue(Entropy(), 200_000)
        answered = queue.add(messages)
        sizes: list[int] = []
        while sections := queue.take(0):
            ((schedule, give),) = sections
            sizes.append(schedule[1])
            give(None, "void", 0)
        assert sizes == entries
        parts = await answered
        assert [(start, rows) for start, rows, _ in parts] == [
            (sum(entries[:at]), rows) for at, rows in enumerate(entries)
        ]

    asyncio.run(play())


def test_b14_single_messages_are_counted_together() -> None:
    """Thousands of clients name thousands of hours in one entry, too."""

    async def play() -> None:
        queue = MessageQueue(Entropy(), 200_000)
        for hour in range(3_000):
            queue.add([MessageIn("t", b"1", delay_ms=hour * HOUR_MS)])
        ((schedule, _),) = queue.take(0)
        assert (schedule[1], queue.rows) == (1_321, 1_679)

    asyncio.run(play())


def test_one_message_waits_for_an_entry_or_two_whatever_stands_before_it() -> None:
    """Six batches of 13 MiB, headers and tags in each line, stood before everybody's messages for as long as 80 entries
    took. Each request has its turn now, and a batch is answered as one and in order all the same."""
    headers = pack_headers({f"header-{number}": "x" * 24 for number in range(32)})
    line = MessageIn("t", b"1", headers=headers, tags=tuple(f"tag-{number}" for number in range(16)))

    async def play() -> None:
        queue = MessageQueue(Entropy(), 200_000)
        batches = [queue.add([line] * 8_000) for _ in range(6)]
        one = queue.add([MessageIn("one", b"1")])
        rows = []
        while sections := queue.take(0):
            ((schedule, give),) = sections
            rows.append(schedule[1])
            give(None, "void", 0)
            assert one.done() or len(rows) < 2
        assert sum(rows) == 6 * 8_000 + 1
        assert max(rows) < 1_000, "and an entry has as many as take some ms"
        for batch in batches:
            at = 0
            for start, count, _ in await batch:
                assert start == at
                at += count
            assert at == 8_000

    asyncio.run(play())


@pytest.mark.parametrize(("batch", "singles"), [(3, 0), (1, 4)])
def test_messages_of_several_requests_count_as_those(batch: int, singles: int) -> None:
    """A front joins what single requests bring: the leader waits for their clients as for its own. A batch is one."""

    async def play() -> None:
        queue = MessageQueue(Entropy(), 200_000)
        one = MessageIn("t", b"1")
        queue.add(encode_draft([one] * 3), requests=3)
        queue.add([one] * batch)
        assert queue.requests == 4
        ((_, give),) = queue.take(0)
        assert queue.requests == 0
        give(None, "void", 0)
        assert queue.singles == singles
        queue.add(encode_draft([one] * 3), requests=3)
        queue.refuse()
        assert queue.requests == 0

    asyncio.run(play())
