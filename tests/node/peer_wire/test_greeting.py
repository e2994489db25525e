"""Who may ask for calls: both sides look at what the other says of itself, and refuse by name."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import replication.wire.said_seldom as seldom_module
from node.peer_wire.frame import CALL, Piece, write_frame
from node.peer_wire.greeting import BYTES_MAX, CALLS_MAX, Greeting, check, encode_greeting, greet, read_greeting
from node.port.codec import BadFrame, encode
from node.port.group_frames import VERSIONS
from replication.wire.frame import FrameRefused, encode_frame, seal
from replication.wire.handshake import CALLS, Hello, Refusal
from tests.node.peer_wire.pair import CLUSTER, echo, run
from tests.node.peer_wire.wires import OTHER_CLUSTER, answering, dial, greeted, nodes, refusal_of, said_by
from tests.waiting import turns, until

WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"oldest": VERSIONS[1] + 1, "newest": 40}, "protocol", f"n2 speaks calls of versions {VERSIONS[1] + 1} to 40"),
    ({"oldest": 0, "newest": VERSIONS[0] - 1}, "protocol", f"n2 speaks calls of versions 0 to {VERSIONS[0] - 1}"),
    ({"cluster": OTHER_CLUSTER}, "other-cluster", "n2 belongs to another cluster than n1"),
    ({"group": 3}, "other-group", "n2 speaks of group 3, n1 of 0"),
    ({"to": "n3"}, "wrong-address", "n2 looks for n3, this is n1"),
    ({"node": "n8"}, "unknown-node", "n8 is not a member"),
    ({"node": "n1"}, "unknown-node", "n1 is not a member"),
]  # fmt: skip
REASONS = ["newer", "older", "cluster", "group", "address", "stranger", "own name"]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of connections."""
    names = ("hourwheel.calls", "hourwheel.transport")
    return [each.getMessage() for each in caplog.records if each.name in names and each.levelno >= logging.WARNING]


@pytest.mark.parametrize(("change", "reason", "says"), WRONG, ids=REASONS)
def test_the_wrong_node_is_refused_with_its_reason(
    caplog: pytest.LogCaptureFixture, change: dict[str, Any], reason: str, says: str
) -> None:
    """It is told why, and so is the log, in one line; the next one is taken."""

    async def scene() -> None:
        async with nodes(echo, echo) as (one, _):
            refusal = await refusal_of(one, said_by("n2", "n1", **change))
            assert (refusal.reason, says in refusal.detail) == (reason, True)
            assert len(lines(caplog)) == 1
            assert says in lines(caplog)[0]
            assert one.connections == []
            await (await greeted(one)).close()

    run(scene)


@pytest.mark.parametrize(("change", "reason", "says"), WRONG, ids=REASONS)
def test_check(change: dict[str, Any], reason: str, says: str) -> None:
    """The same of the greetings alone; and one that is right is not refused, whatever later builds add to it."""
    own = greet(CLUSTER, "n1", "n2", 0)
    refusal = check(own, said_by("n2", "n1", **change), frozenset(("n2", "n3", "n1")))
    assert refusal is not None
    assert (refusal.reason, says in refusal.detail) == (reason, True)
    assert check(own, said_by("n2", "n1", more={"tls": [1]}, newest=VERSIONS[1] + 1), frozenset(("n2",))) is None


def test_a_greeting_says_what_the_node_keeps() -> None:
    """It comes back as it was; its meta is told from a hello of Raft, which asks for no calls."""
    own = greet(CLUSTER, "n1", "n2", 5)
    assert (own.calls_max, own.bytes_max, own.oldest, own.newest) == (CALLS_MAX, BYTES_MAX, *VERSIONS)
    assert read_greeting(encode_greeting(own)) == own
    (frame,) = Hello("n2", "n1", b"s", CLUSTER).encode()
    said = read_greeting(frame[12:])
    assert isinstance(said, Refusal)
    assert (said.reason, said.detail) == ("no-calls", "n2 speaks of Raft here")
    (frame,) = Refusal("removed", "gone").encode()
    assert read_greeting(frame[12:]) == Refusal("removed", "gone")


def damaged() -> list[bytes]:
    """First frames of calls that no build has said."""
    good = greet(CLUSTER, "n2", "n1", 0)
    wrong: list[dict[str, Any]] = [
        {"cluster": b"short"},
        {"group": 1 << 16},
        {"bytes_max": -1},
        {"newest": -1},
        {"calls_max": 1 << 32},
    ]
    return [
        bytes((0x97, CALLS)),
        bytes((0x90, CALLS)),
        bytes((0x9A, CALLS)) + b"\xff" * 40,
        encode_greeting(good)[:-1],
        encode_greeting(good).replace(b"n2", b"\xff\xfe"),
        *(encode(replace(good, **each)) for each in wrong),
    ]


@pytest.mark.parametrize("meta", damaged())
def test_a_greeting_that_cannot_be_read_closes_the_connection(caplog: pytest.LogCaptureFixture, meta: bytes) -> None:
    """It is answered nothing; the log says what is wrong, in a line."""
    with pytest.raises((BadFrame, FrameRefused)):
        read_greeting(meta)

    async def scene() -> None:
        async with nodes(echo, echo) as (one, _):
            stranger = await dial(one)
            stranger.writer.write(b"".join(seal(meta)))
            assert await stranger.reader.read() == b""
            await stranger.close()
            assert len(lines(caplog)) == 1
            assert "a greeting for calls that cannot be read: Greeting" in lines(caplog)[0]
            assert one.connections == []
            await (await greeted(one)).close()

    run(scene)


@pytest.mark.parametrize(
    "fields", [{"node": "n8\nERROR all is lost"}, {"to": "n1\nERROR all is lost"}, {"node": "x" * 7000}]
)
def test_a_stranger_writes_no_lines_into_the_log(caplog: pytest.LogCaptureFixture, fields: dict[str, str]) -> None:
    """Names are said as they came: without what ends a line, and no longer than a name."""

    async def scene() -> None:
        async with nodes(echo, echo) as (one, _):
            stranger = await dial(one)
            stranger.says(said_by("n2", "n1", **fields))
            assert await stranger.closed_by_peer()
            await stranger.close()
            (line,) = lines(caplog)
            assert "\n" not in line
            assert len(line) < 1000

    run(scene)


def test_strangers_cost_one_line_a_second(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come; the next line says how many were left out."""
    monkeypatch.setattr(seldom_module, "PERIOD_S", 1e6)

    async def scene() -> None:
        async with nodes(echo, echo) as (one, _):
            for number in range(30):
                stranger = await dial(one)
                stranger.says(said_by(f"n{number + 10}", "n1"))
                assert await stranger.closed_by_peer()
                await stranger.close()
            assert len(lines(caplog)) == 1
            one.wire._seldom._next_s = 0.0
            stranger = await dial(one)
            stranger.says(said_by("n8", "n1"))
            assert await stranger.closed_by_peer()
            await stranger.close()
            assert len(lines(caplog)) == 2
            assert lines(caplog)[1].endswith("(29 more such lines were left out)")

    run(scene)


def test_before_there_is_a_cluster_nobody_is_taken() -> None:
    """Nor is anybody asked."""

    async def scene() -> None:
        async with nodes(echo, echo) as (one, two):
            one.status = replace(one.status, cluster=None)
            assert await one.to("n2") is None
            assert await two.to("n1") is None
            refusal = await refusal_of(one, said_by("n2", "n1"))
            assert (refusal.reason, refusal.detail) == ("not-founded", "n1 knows no cluster, or closes")
            assert one.connections == two.connections == []

    run(scene)


# -- the other direction: what is answered to a node that dials


def says(*frame: bytes) -> Callable[[asyncio.StreamWriter], None]:
    """Answers with this frame."""
    return lambda writer: writer.write(b"".join(frame))


def hangs_up(writer: asyncio.StreamWriter) -> None:
    """As an older build does, which takes such a greeting for no hello."""
    writer.close()


def of(**change: Any) -> Callable[[asyncio.StreamWriter], None]:
    """Answers as n2, with changes."""
    return says(*seal(encode_greeting(said_by(change.pop("node", "n2"), change.pop("to", "n1"), **change))))


ANSWERS = [
    *((of(**change), detail.split(",")[0]) for change, _, detail in WRONG),
    (says(*Refusal("unknown-node", "n1 is not a member, as far as n2 knows").encode()), "n2 refuses calls: n1 is"),
    (says(*Hello("n2", "n1", b"s", CLUSTER).encode()), ""),
    (says(*seal(bytes((0x97, CALLS)))), "a greeting for calls that cannot be read"),
    (says(*encode_frame([7, "what"])), "the first frame is not a hello"),
    (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "frame of"),
    (hangs_up, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "line"), ANSWERS, ids=[*REASONS, "refused", "Raft", "damaged", "no hello", "HTTP", "older build"]
)
def test_what_answers_wrongly_is_not_reached(
    caplog: pytest.LogCaptureFixture, answer: Callable[[asyncio.StreamWriter], None], line: str
) -> None:
    """The log says what was answered, in one line; the connection is closed from this side too."""

    async def scene() -> None:
        async with nodes() as (one,), answering(answer) as (peer, closed):
            one.knows(peer)
            assert await one.to("n2") is None
            assert one.connections == []
            await until(lambda: closed == [True], within_s=2, what="this side closes the connection")
            said = lines(caplog)
            assert len(said) == bool(line)
            assert line in "".join(said)

    run(scene)


def test_one_that_answers_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor by those who came meanwhile."""
    monkeypatch.setattr("replication.wire.dialler.CONNECT_S", 0.05)

    async def scene() -> None:
        async with nodes() as (one,), answering(lambda _: None) as (peer, closed):
            one.knows(peer)
            assert set(await asyncio.gather(one.to("n2"), one.to("n2"))) == {None}
            await until(lambda: closed == [True])

    run(scene)


def test_what_comes_in_the_step_of_the_greeting_is_read() -> None:
    """A call behind the greeting, in the same bytes, of who dials; and of who was dialled."""

    async def scene() -> None:
        call = b"".join(write_frame(1, 0, [Piece(CALL, 1, name="c")], []))
        greeting = b"".join(seal(encode_greeting(said_by("n2", "n1"))))
        async with nodes(echo) as (one,), answering(says(greeting + call)) as (peer, _):
            one.knows(peer)
            stranger = await dial(one)
            stranger.writer.write(greeting + call)
            assert isinstance(await stranger.answer(), Greeting)
            assert isinstance(await stranger.answer(), bytes)
            reached = await one.to("n2")
            assert reached is not None
            await until(lambda: reached is None or reached._newest == 1)
            await turns()
            await stranger.close()

    run(scene)
