"""Operations over a real socket: what reaches the port, what is answered, and each fault by its name."""

from typing import Any, Final

import pytest

from api.port.port import Principal
from api.port.problem import Problem
from api.port.queries import WAIT_LONG_S, OperationIn, OperationVerb, OperationView
from api.port.timestamp import render_time
from tests.api.harness import Client, check_problem, run, running
from tests.api.memory_port import MemoryPort
from tests.api.memory_queries import NOW_MS

HALF_HOUR_MS: Final = 1_800_000
TEN_YEARS_MS: Final = 3_650 * 86_400_000
BEGIN: Final = "/v1/operations"
CANCEL: Final = "/v1/messages/cancel"
SHIFT: Final = "/v1/messages/shift"
ONE: Final = f"{BEGIN}/op-1234"


class AskedPort(MemoryPort):
    """It keeps what it was asked for, and refuses it if `refusal` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.wishes: list[OperationIn] = []
        self.verbs: list[tuple[str, str]] = []
        self.refusal: Problem | None = None

    async def begin_operation(self, wish: OperationIn, *, principal: Principal) -> OperationView:
        if self.refusal is not None:
            raise self.refusal
        self.wishes.append(wish)
        return await super().begin_operation(wish, principal=principal)

    async def change_operation(self, id: str, verb: OperationVerb, *, principal: Principal) -> OperationView:
        if self.refusal is not None:
            raise self.refusal
        self.verbs.append((id, verb))
        return await super().change_operation(id, verb, principal=principal)


async def _schedule(client: Client) -> None:
    """Four messages: three of topic a, one of b; the first two are tagged eu."""
    for number in range(4):
        sent = {"topic": "ab"[number == 3], "body": number, "delay": f"{number}m", "tags": ["eu"][: number < 2]}
        await client.send("POST", "/v1/messages", sent)


def _shape(**more: Any) -> dict[str, Any]:
    """A cancel of topic a that found nothing, as it is shown."""
    return {
        "id": "op-1234", "kind": "cancel", "state": "done", "topic": "a", "from": None, "to": None, "tag": None,
        "reason": None, "by": None, "to_due": None, "rate": None, "note": "", "begun": render_time(NOW_MS),
        "ended": render_time(NOW_MS), "matched": 0, "changed": 0, "prior": {"none": 0, "known": 0, "unknown": 0},
        "skipped": {"leased": 0, "settled": 0, "gone": 0, "key_taken": 0}, "index": 1236, "progress": 1.0, **more,
    }  # fmt: skip


_WINDOW: Final[dict[str, Any]] = {
    "from": "2026-11-21T02:10:20.125Z",
    "to": NOW_MS + 60_000,
    "tag": "eu",
    "note": "zweimal gesandt ü",
}
_WINDOW_IN: Final[dict[str, Any]] = {
    "from_ms": NOW_MS,
    "to_ms": NOW_MS + 60_000,
    "tag": "eu",
    "note": "zweimal gesandt ü",
}


_WISHES: Final = [
    (BEGIN, {"kind": "cancel", "topic": "a"}, OperationIn(kind="cancel", topics=("a",))),
    (
        BEGIN,
        {"kind": "cancel", "topic": ["b", "a"], **_WINDOW},
        OperationIn(kind="cancel", topics=("b", "a"), **_WINDOW_IN),
    ),
    (
        BEGIN,
        {"kind": "cancel", "topic": "*", "confirm": 0, "dry_run": False},
        OperationIn(kind="cancel", topics=None, confirm=0),
    ),
    (
        BEGIN,
        {"kind": "cancel", "topic": [f"t{number}" for number in range(100)], "from": NOW_MS, "to": NOW_MS},
        OperationIn(kind="cancel", topics=tuple(f"t{number}" for number in range(100)), from_ms=NOW_MS, to_ms=NOW_MS),
    ),
    (
        BEGIN,
        {"kind": "shift", "topic": "a", "by": "-30m", "rate": 100_000, **_WINDOW},
        OperationIn(kind="shift", topics=("a",), by_ms=-HALF_HOUR_MS, rate=100_000, **_WINDOW_IN),
    ),
    (
        BEGIN,
        {"kind": "shift", "topic": "*", "confirm": 12, "to_due": "2026-11-21T03:10:20.125+01:00", "dry_run": True},
        OperationIn(kind="shift", topics=None, confirm=12, to_due_ms=NOW_MS, dry_run=True),
    ),
    (
        BEGIN,
        {"kind": "release", "topic": "a", "rate": 1, **_WINDOW},
        OperationIn(kind="release", topics=("a",), rate=1, **_WINDOW_IN),
    ),
    (
        BEGIN,
        {"kind": "redrive", "topic": "a", "reason": "http-503", "rate": 5, **_WINDOW},
        OperationIn(kind="redrive", topics=("a",), reason="http-503", rate=5, **_WINDOW_IN),
    ),
    (BEGIN, {"kind": "redrive", "topic": "a"}, OperationIn(kind="redrive", topics=("a",))),
    (
        BEGIN,
        {"kind": "resend", "topic": "a", "rate": 5, **_WINDOW},
        OperationIn(kind="resend", topics=("a",), rate=5, **_WINDOW_IN),
    ),
    (
        CANCEL,
        {"topic": "*", "confirm": 3, **_WINDOW},
        OperationIn(kind="cancel", topics=None, confirm=3, wait_s=WAIT_LONG_S, **_WINDOW_IN),
    ),
    (
        SHIFT,
        {"topic": ["a"], "by": "1h", "rate": 7, "dry_run": True},
        OperationIn(kind="shift", topics=("a",), by_ms=2 * HALF_HOUR_MS, rate=7, dry_run=True, wait_s=WAIT_LONG_S),
    ),
    (
        SHIFT,
        {"topic": "a", "to_due": NOW_MS},
        OperationIn(kind="shift", topics=("a",), to_due_ms=NOW_MS, wait_s=WAIT_LONG_S),
    ),
]


@pytest.mark.parametrize(("path", "sent", "wish"), _WISHES)
def test_it_reaches_the_port(path: str, sent: dict[str, Any], wish: OperationIn) -> None:
    """Each field of each kind, by all three routes; those of messages wait for longer."""

    async def story() -> None:
        port = AskedPort()
        async with running(port) as client:
            reply = await client.send("POST", path, sent)
            assert (reply.status, port.wishes) == (200, [wish])

    run(story())


@pytest.mark.parametrize(
    ("by", "by_ms", "shown"),
    [
        ("-30m", -HALF_HOUR_MS, "-30m"),
        ("+30m", HALF_HOUR_MS, "30m"),
        ("60m", 2 * HALF_HOUR_MS, "1h"),
        ("-86400s", -86_400_000, "-1d"),
        (5, 5, "5ms"),
        (-1, -1, "-1ms"),
        (-90_000, -90_000, "-90s"),
        ("3650d", TEN_YEARS_MS, "3650d"),
        (-TEN_YEARS_MS, -TEN_YEARS_MS, "-3650d"),
    ],
)
def test_by_is_signed(by: object, by_ms: int, shown: str) -> None:
    """Text or whole milliseconds, with a sign; it is shown in the largest unit."""

    async def story() -> None:
        port = AskedPort()
        async with running(port) as client:
            reply = await client.send("POST", SHIFT, {"topic": "a", "by": by})
            assert (port.wishes[0].by_ms, reply.json["by"]) == (by_ms, shown)

    run(story())


def test_the_answer_of_one_that_has_ended() -> None:
    """It is 200 with the whole operation; a single topic is no list."""

    async def story() -> None:
        async with running() as client:
            await _schedule(client)
            for number, (path, topic, found) in enumerate(
                ((CANCEL, "a", 2), (BEGIN, ["b", "a"], 0), (CANCEL, ["b"], 0))
            ):
                sent = {"topic": topic, "tag": "eu", "note": "twice"} | ({"kind": "cancel"} if path == BEGIN else {})
                reply = await client.send("POST", path, sent)
                id = f"op-{1234 + number}"
                assert (reply.status, reply.headers["location"]) == (200, f"{BEGIN}/{id}")
                own = {"id": id, "topic": "b" if topic == ["b"] else topic, "tag": "eu", "note": "twice"}
                prior = {"none": found, "known": 0, "unknown": 0}
                assert reply.json == _shape(**own, matched=found, changed=found, prior=prior)

    run(story())


@pytest.mark.parametrize(
    ("path", "sent", "shown"),
    [
        (BEGIN, {"kind": "cancel", "topic": "a", "tag": "us"}, {}),
        (BEGIN, {"kind": "release", "topic": "*", "confirm": 0, "rate": 3}, {}),
        (BEGIN, {"kind": "redrive", "topic": ["a", "b"], "reason": "timeout", "rate": 9}, {}),
        (BEGIN, {"kind": "resend", "topic": "a", "to": NOW_MS}, {"to": render_time(NOW_MS)}),
        (CANCEL, {"topic": "a", "from": NOW_MS}, {"kind": "cancel", "from": render_time(NOW_MS)}),
        (SHIFT, {"topic": "a", "to_due": NOW_MS, "rate": 1}, {"kind": "shift", "to_due": render_time(NOW_MS)}),
    ],
)
def test_the_answer_of_one_that_runs(path: str, sent: dict[str, Any], shown: dict[str, Any]) -> None:
    """It is 202 and has no end and no `matched` yet; all else is shown as it was sent."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", path, sent | {"note": "runs"})
            assert (reply.status, reply.headers["location"]) == (202, ONE)
            wanted = _shape(**sent | {"state": "running", "note": "runs", "ended": None, "matched": None} | shown)
            wanted.pop("confirm", None)
            assert reply.json == wanted

    run(story())


@pytest.mark.parametrize(
    ("path", "sent", "matched"),
    [
        (BEGIN, {"kind": "cancel", "topic": "a"}, 3),
        (BEGIN, {"kind": "shift", "topic": ["a", "b"], "by": "1h"}, 4),
        (BEGIN, {"kind": "release", "topic": "*"}, 4),
        (BEGIN, {"kind": "redrive", "topic": "a", "tag": "us", "reason": "timeout"}, 0),
        (BEGIN, {"kind": "resend", "topic": "a", "from": NOW_MS + 1}, 2),
        (CANCEL, {"topic": "b"}, 1),
        (SHIFT, {"topic": "a", "by": "1h", "to": NOW_MS}, 0),
    ],
)
def test_a_dry_run(path: str, sent: dict[str, Any], matched: int) -> None:
    """It answers with a number alone, and nothing has begun."""

    async def story() -> None:
        async with running() as client:
            await _schedule(client)
            reply = await client.send("POST", path, sent | {"dry_run": True})
            assert (reply.status, reply.json, "location" in reply.headers) == (200, {"matched": matched}, False)
            assert (await client.send("GET", BEGIN)).json == {"items": [], "next_cursor": None}

    run(story())


def test_one_and_all() -> None:
    """One by its id; pages begin with the newest, and the cursor leads on to the rest."""

    async def story() -> None:
        async with running() as client:
            kinds = ("cancel", "release", "resend")
            begun = [(await client.send("POST", BEGIN, {"kind": kind, "topic": "a"})).json for kind in kinds]
            for each in begun:
                reply = await client.send("GET", f"{BEGIN}/{each['id']}")
                assert (reply.status, reply.json) == (200, each)
            assert (await client.send("GET", BEGIN)).json == {"items": begun[::-1], "next_cursor": None}
            first = (await client.send("GET", f"{BEGIN}?limit=2")).json
            assert first == {"items": [begun[2], begun[1]], "next_cursor": "op-1235"}
            rest = (await client.send("GET", f"{BEGIN}?limit=1000&cursor={first['next_cursor']}")).json
            assert rest == {"items": [begun[0]], "next_cursor": None}
            check_problem(await client.send("GET", f"{BEGIN}/op-1"), 404, "unknown-operation")

    run(story())


def test_pause_resume_and_abort() -> None:
    """The port gets the id and the verb. A body is an empty object or none, of any type."""

    async def story() -> None:
        port = AskedPort()
        async with running(port) as client:
            sent = {"kind": "shift", "topic": "a", "by": "-30m", "note": "runs"}
            await client.send("POST", BEGIN, sent)
            shown = _shape(kind="shift", by="-30m", note="runs", ended=None, matched=None)
            for verb, state in (("pause", "paused"), ("resume", "running"), ("abort", "aborted")):
                for body, headers in ((None, {}), ({}, {}), (b"", {"Content-Type": "text/plain"})):
                    reply = await client.send("POST", f"{ONE}/{verb}", body, headers)
                    assert (reply.status, reply.json) == (200, shown | {"state": state})
            assert port.verbs == [("op-1234", verb) for verb in ("pause", "resume", "abort") for _ in range(3)]
            assert (await client.send("GET", ONE)).json["state"] == "aborted"
            check_problem(await client.send("POST", f"{ONE}/stop"), 404, "unknown-route")
            check_problem(await client.send("GET", f"{ONE}/pause"), 405, "method-not-allowed")
            check_problem(await client.send("DELETE", ONE), 405, "method-not-allowed")

    run(story())


def test_refusals_of_the_port() -> None:
    """They are answered as they come, and name the operation in the way."""

    async def story() -> None:
        port = AskedPort()
        async with running(port) as client:
            for code, status, path, sent in (
                ("in-progress", 409, SHIFT, {"topic": "a", "by": "1h"}),
                ("over-limit", 429, CANCEL, {"topic": "a"}),
                ("already-settled", 409, f"{ONE}/pause", None),
                ("unknown-operation", 404, f"{ONE}/abort", {}),
            ):
                port.refusal = Problem(code, "it is so", operation="op-7")
                problem = check_problem(await client.send("POST", path, sent), status, code)
                assert problem["operation"] == "op-7"
            port.refusal = None
            check_problem(await client.send("POST", CANCEL, {"topic": "nowhere"}), 404, "unknown-topic")

    run(story())
