"""What only the leader can refuse of new messages, on a whole node."""

from pathlib import Path

import pytest

from api.port.message import Target
from api.port.port import ANONYMOUS, MessageIn, TopicChange
from api.port.problem import Problem
from node.node import Node
from node.port.draft import encode_draft
from storage.format.schedule_status import FAILED, NEW
from tests.node.single_node import run_node


def test_targets_go_with_the_mode_of_their_topic(tmp_path: Path) -> None:
    """In a batch the messages at fault have their own problem and the others go on; a single one is refused."""
    target = Target(url="http://127.0.0.1:1/")

    async def play(node: Node) -> None:
        service = node.front
        change = TopicChange(mode="push")
        await service.put_topic("pushed", change, create=True, if_match=None, principal=ANONYMOUS)
        batch = [
            MessageIn("pushed", b"0"),
            MessageIn("pushed", b"1", delay_ms=60_000, target=target),
            MessageIn("pulled", b"2"),
            MessageIn("pulled", b"3", target=target),
        ]
        result = await service.schedule(batch, ANONYMOUS)
        assert result.status.tolist() == [FAILED, NEW, NEW, FAILED]
        assert {problem.code for problem in result.problems.values()} == {"invalid-field"}
        assert [fault.pointer for row in (0, 3) for fault in result.problems[row].errors] == ["/target"] * 2
        view = await service.message(bytes(result.ids[1]).decode(), local=False, principal=ANONYMOUS)
        assert view.body == b"1"
        for message in (batch[0], batch[3]):
            with pytest.raises(Problem, match="invalid-field"):
                await service.schedule([message], ANONYMOUS)
        none = await service.schedule([batch[0], batch[3]], ANONYMOUS)
        assert none.status.tolist() == [FAILED, FAILED]
        change = TopicChange(target={"url": target.url})
        await service.put_topic("pushed", change, create=False, if_match=None, principal=ANONYMOUS)
        assert (await service.schedule([MessageIn("pushed", b"0", delay_ms=60_000)], ANONYMOUS)).status.tolist() == [
            NEW
        ]

    run_node(tmp_path / "n1", play)


def test_b5_schedules_make_so_many_topics_and_no_more(tmp_path: Path) -> None:
    """20 requests made 100,000, and every list and scrape paid for them. Those that exist go on; PUT makes more."""

    async def play(node: Node) -> None:
        service = node.front
        batch = [MessageIn(name, b"1", delay_ms=60_000) for name in ("a", "b", "c", "a", "d", "c")]
        result = await service.schedule(batch, ANONYMOUS)
        assert result.status.tolist() == [NEW, NEW, NEW, NEW, FAILED, NEW]
        assert result.problems[4].code == "over-limit"
        assert result.problems[4].errors[0].pointer == "/topic"
        with pytest.raises(Problem, match="over-limit: there are 3 topics"):
            await service.schedule([MessageIn("d", b"1")], ANONYMOUS)
        target = Target(url="https://x/")  # of a topic that pushes nothing: it makes none
        result = await service.schedule([MessageIn("x", b"1", target=target), MessageIn("y", b"1")], ANONYMOUS)
        assert [result.problems[row].code for row in (0, 1)] == ["invalid-field", "over-limit"]
        await service.put_topic("d", TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
        result = await service.schedule([*batch, MessageIn("e", b"1")], ANONYMOUS)
        assert result.status.tolist() == [NEW] * 6 + [FAILED]

    run_node(tmp_path / "n1", play, limits={"max_topics": 3})


def test_b8_a_message_is_rescheduled_so_often_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time keeps a copy of it on every node: 3,092 of 100 KB were 290 MB."""
    monkeypatch.setattr("node.message.change.CHANGES_MAX", 3)

    async def play(node: Node) -> None:
        service = node.front
        (id,) = (await service.schedule([MessageIn("t", b"1", delay_ms=60_000)], ANONYMOUS)).ids.tolist()

        async def move() -> int:
            moved = service.reschedule
            result = await moved(id.decode(), due_ms=None, delay_ms=60_000, if_match=None, principal=ANONYMOUS)
            return result.revision

        assert [await move() for _ in range(3)] == [2, 3, 4]
        with pytest.raises(Problem, match="over-limit: a message is rescheduled 3 times at most"):
            await move()
        assert (await service.cancel(id.decode(), if_match=None, principal=ANONYMOUS)).prior == "none"

    run_node(tmp_path / "n1", play)


def test_a_row_that_is_refused_takes_no_topic_of_another(tmp_path: Path) -> None:
    """Requests of several clients may be rows of one draft: what one does wrong refuses no other."""

    async def play(node: Node) -> None:
        target = Target(url="https://x/")
        late = MessageIn("z", b"1", delay_ms=node.config.limits.max_delay_ms + 1)
        batch = [MessageIn("x", b"1", target=target), late, MessageIn("y", b"1", delay_ms=60_000)]
        found = await node.group.port.schedule_each(encode_draft(batch))
        assert list(found.status) == [FAILED, FAILED, NEW]
        assert [found.refused[row].code for row in (0, 1)] == ["invalid-field", "beyond-max-delay"]

    run_node(tmp_path / "n1", play, limits={"max_topics": 1})
