"""Kind by kind: what two kinds give together, on three real nodes. Mostly it is 422, because."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.semantics.real_nodes import RealNodes, Runner, real_nodes

FAR: Final = {"delay": "1h"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """The cluster."""
    with real_nodes(tmp_path_factory.mktemp("cells")) as runner:
        yield runner


def message(topic: str, **more: Any) -> dict[str, Any]:
    """One that is due in an hour."""
    return {"topic": topic, "body": 1, **FAR, **more}


async def count(nodes: RealNodes, topic: str) -> int:
    """The open messages of a topic, 0 if there is none."""
    said = await nodes.ask(f"GET /v1/messages/count?topic={topic}")
    return int(said.document["count"]) if said.status == 200 else 0


def test_key_and_batch(shared: Runner) -> None:
    """Works: each line has the rule of its own key, and lines with one key take effect in their order."""

    async def story(nodes: RealNodes) -> None:
        lines = [
            message("kb", key="a"), message("kb", key="a"), message("kb", key="a", body=2),
            message("kb", key="a", on_conflict="keep", body=3), message("kb", key="a", on_conflict="replace"),
            message("kb", key="a", on_conflict="extend"),
        ]  # fmt: skip
        said = (await nodes.ask("POST /v1/messages/batch", lines)).lines
        assert [each.get("outcome", each.get("error", {}).get("code", "created")) for each in said] == [
            "created", "replayed", "key-conflict", "kept", "replaced", "extended",
        ]  # fmt: skip
        assert await count(nodes, "kb") == 1

    shared.run(story(shared.nodes))


def test_key_and_atomic(shared: Runner) -> None:
    """Works: every line has a key. A conflict refuses all lines, with the line."""

    async def story(nodes: RealNodes) -> None:
        await nodes.done("POST /v1/messages", message("ka", key="b", body=9))
        lines = [message("ka", key="a"), message("ka", key="b"), message("ka", key="c")]
        said = await nodes.ask("POST /v1/messages/batch?atomic=true", lines)
        assert said.status == 422
        assert [(each["line"], each["code"]) for each in said.document["errors"]] == [(2, "key-conflict")]
        assert await count(nodes, "ka") == 1
        kept = [message("ka", key="a"), message("ka", key="b", on_conflict="keep")]
        assert (await nodes.ask("POST /v1/messages/batch?atomic=true", kept)).status == 201
        assert await count(nodes, "ka") == 2

    shared.run(story(shared.nodes))


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([{"key": "a"}, {}], "invalid-field"),
        ([{"key": "a"}, {"key": "a"}], "invalid-field"),
        ([{"key": "a"}, {"key": "a", "on_conflict": "replace"}], "invalid-field"),
    ],
    ids=["without-a-key", "a-key-twice", "a-key-twice-to-replace"],
)
def test_atomic_and(shared: Runner, lines: list[dict[str, Any]], code: str) -> None:
    """422, because a line without a key is not safe to send again, and two lines cannot have one key."""

    async def story(nodes: RealNodes) -> None:
        said = await nodes.ask("POST /v1/messages/batch?atomic=true", [message("at", **line) for line in lines])
        assert said.status == 422
        assert [(each["line"], each["code"]) for each in said.document["errors"]] == [(2, code)]
        assert await count(nodes, "at") == 0

    shared.run(story(shared.nodes))


@pytest.mark.parametrize("holder", ["scheduled", "leased", "delivered", "moving"])
@pytest.mark.parametrize("rule", ["replace", "extend"])
def test_atomic_and_a_holder(shared: Runner, rule: str, holder: str) -> None:
    """Works: each line does what it does alone. If one may not, none does: 422 with the line and its code."""
    wanted = {
        ("replace", "scheduled"): "replaced", ("replace", "leased"): "leased",
        ("replace", "delivered"): None, ("replace", "moving"): "in-progress",
        ("extend", "scheduled"): "extended", ("extend", "leased"): None,
        ("extend", "delivered"): None, ("extend", "moving"): "in-progress",
    }[rule, holder]  # fmt: skip

    async def story(nodes: RealNodes) -> None:
        topic, other = f"ah-{rule}-{holder}", f"ah-{rule}-{holder}-other"
        due = {"delay": "1ms"} if holder in ("leased", "delivered") else FAR
        first = await nodes.done("POST /v1/messages", message(topic, key="a") | due)
        free = await nodes.done("POST /v1/messages", message(other, key="b"))
        if holder == "leased":
            assert len(await nodes.pull(topic, 1)) == 1
        elif holder == "delivered":
            await nodes.take(topic, [first["id"]])
        elif holder == "moving":
            await _shift_and_pause(nodes, topic)
        lines = [message(other, key="b", on_conflict="replace"), message(topic, key="a", on_conflict=rule, body=2)]
        said = await nodes.ask("POST /v1/messages/batch?atomic=true", lines)
        state = (await nodes.done(f"GET /v1/messages/{free['id']}"))["state"]
        if wanted in ("leased", "in-progress"):
            assert [(each["line"], each["code"]) for each in said.document["errors"]] == [(2, wanted)]
            assert (said.status, state) == (422, "scheduled")
        else:
            assert [each.get("outcome") for each in said.lines] == ["replaced", wanted]
            assert (said.status, state) == (201, "cancelled")

    shared.run(story(shared.nodes))


@pytest.mark.parametrize("path", ["/v1/messages/batch", "/v1/messages/batch?atomic=true"], ids=["batch", "atomic"])
def test_once_and(shared: Runner, path: str) -> None:
    """422, because each line has a key of its own for that."""

    async def story(nodes: RealNodes) -> None:
        said = await nodes.ask(f"POST {path}", [message("ob", key="a")], Idempotency_Key="ob")
        assert (said.status, said.document["errors"][0]["header"]) == (422, "Idempotency-Key")
        assert await count(nodes, "ob") == 0

    shared.run(story(shared.nodes))


@pytest.mark.parametrize("rule", ["reject", "keep", "replace", "extend"])
def test_once_and_key(shared: Runner, rule: str) -> None:
    """422 with `reject` and `keep`, because the key does the same. With `replace` and `extend` the wish has its effect
    once."""

    async def story(nodes: RealNodes) -> None:
        sent = message(f"ok-{rule}", key="a", on_conflict=rule)
        if rule in ("reject", "keep"):
            said = await nodes.ask("POST /v1/messages", sent, Idempotency_Key=rule)
            assert (said.status, said.document["code"]) == (422, "invalid-field")
            return
        await nodes.done("POST /v1/messages", sent)
        first, again = [await nodes.ask("POST /v1/messages", sent, Idempotency_Key=rule) for _ in range(2)]
        assert first.document["outcome"] == f"{rule}d" if rule == "replace" else "extended"
        assert (again.body, again.headers["Idempotency-Replayed"]) == (first.body, "true")
        assert await count(nodes, f"ok-{rule}") == 1

    shared.run(story(shared.nodes))


@pytest.mark.parametrize("holder", ["scheduled", "leased", "delivered", "cancelled"])
@pytest.mark.parametrize("rule", ["reject", "keep", "replace", "extend"])
def test_key_and_its_holder(shared: Runner, rule: str, holder: str) -> None:
    """The state of the message that has the key decides the answer to a second request."""
    wanted = {
        ("reject", "scheduled"): "409 key-conflict", ("reject", "leased"): "409 key-conflict",
        ("reject", "delivered"): "409 key-conflict", ("reject", "cancelled"): "409 key-conflict",
        ("keep", "scheduled"): "200 kept", ("keep", "leased"): "200 kept",
        ("keep", "delivered"): "200 kept", ("keep", "cancelled"): "200 kept",
        ("replace", "scheduled"): "201 replaced", ("replace", "leased"): "409 leased",
        ("replace", "delivered"): "201 created", ("replace", "cancelled"): "201 created",
        ("extend", "scheduled"): "200 extended", ("extend", "leased"): "201 created",
        ("extend", "delivered"): "201 created", ("extend", "cancelled"): "201 created",
    }  # fmt: skip

    async def story(nodes: RealNodes) -> None:
        topic = f"kh-{rule}-{holder}"
        due = FAR if holder in ("scheduled", "cancelled") else {"delay": "1ms"}
        first = await nodes.done("POST /v1/messages", message(topic, key="a") | due)
        if holder == "cancelled":
            await nodes.done(f"DELETE /v1/messages/{first['id']}")
        elif holder == "leased":
            assert len(await nodes.pull(topic, 1)) == 1
        elif holder == "delivered":
            await nodes.take(topic, [first["id"]])
        said = await nodes.ask("POST /v1/messages", message(topic, key="a", on_conflict=rule, body=2))
        told = said.document.get("outcome") or said.document["code"]
        assert f"{said.status} {told}" == wanted[rule, holder]

    shared.run(story(shared.nodes))


@pytest.mark.parametrize("rule", ["keep", "replace", "extend"])
def test_key_and_a_running_operation(shared: Runner, rule: str) -> None:
    """`keep` answers a message that a paused shift is about to move, and the others are 409 `in-progress`."""

    async def story(nodes: RealNodes) -> None:
        topic = f"ko-{rule}"
        last = message(topic, key="a") | {"delay": "10h"}  # messages are moved in the order of their due times
        await nodes.done("POST /v1/messages", last)
        begun = await _shift_and_pause(nodes, topic)
        said = await nodes.ask("POST /v1/messages", message(topic, key="a", on_conflict=rule, body=2))
        told = said.document.get("outcome") or said.document["code"]
        assert told == ("kept" if rule == "keep" else "in-progress")
        await nodes.done(f"POST /v1/operations/{begun['id']}/abort")

    shared.run(story(shared.nodes))


async def _shift_and_pause(nodes: RealNodes, topic: str) -> dict[str, Any]:
    """Begin a shift, and pause it before it has moved the last message of the topic."""
    await nodes.ask("POST /v1/messages/batch", [message(topic) | {"delay": "30m"} for _ in range(50)])
    wanted = {"kind": "shift", "topic": topic, "by": "1h", "rate": 1}
    begun: dict[str, Any] = await nodes.done("POST /v1/operations", wanted)
    await nodes.done(f"POST /v1/operations/{begun['id']}/pause")
    return begun
