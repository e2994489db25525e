"""Kind by event: what a client got after the event, of each kind of message, on three real nodes.

The cells share one cluster, and each has its own topic. A leader is killed once, and a backup restored once. That is
for messages of all kinds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.semantics.kinds import KINDS
from tests.semantics.real_nodes import ONE_ATTEMPT, RealNodes, Runner, real_nodes

HOUR: Final = "1h"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """The cluster."""
    with real_nodes(tmp_path_factory.mktemp("cells")) as runner:
        yield runner


async def _retry(nodes: RealNodes, kind: str, topic: str) -> None:
    """A nack: it comes again, as the second attempt, and once."""
    ids = await KINDS[kind](nodes, topic, "1ms")
    first = await nodes.pull(topic, len(ids))
    receipts = [each["receipt"] for each in first]
    await nodes.done(f"POST /v1/topics/{topic}/nack", {"receipts": receipts, "delay": "50ms"})
    assert {each["attempt"] for each in await nodes.take(topic, ids)} == {2}
    assert await nodes.states(ids) == {"delivered"}


async def _cancel(nodes: RealNodes, kind: str, topic: str) -> None:
    """It is never delivered, and says so."""
    ids = await KINDS[kind](nodes, topic, "1500ms")
    for id in ids:
        assert (await nodes.done(f"DELETE /v1/messages/{id}"))["prior"] == "none"
    assert await nodes.pull(topic, 1, 2.2) == []
    assert await nodes.states(ids) == {"cancelled"}


async def _reschedule(nodes: RealNodes, kind: str, topic: str) -> None:
    """It comes at its new due time, once."""
    ids = await KINDS[kind](nodes, topic, HOUR)
    for id in ids:
        await nodes.done(f"PATCH /v1/messages/{id}", {"delay": "1ms"})
    await nodes.take(topic, ids)


async def _operation(nodes: RealNodes, kind: str, topic: str) -> None:
    """A release takes all of them, and each comes once. A cancel of what is left takes none."""
    ids = await KINDS[kind](nodes, topic, HOUR)
    begun = await nodes.done("POST /v1/operations", {"kind": "release", "topic": topic})
    assert (await nodes.ended(begun["id"]))["changed"] == len(ids)
    await nodes.take(topic, ids)
    cancelled = await nodes.done("POST /v1/messages/cancel", {"topic": topic})
    assert cancelled["matched"] == 0


async def _dead_letter_and_redrive(nodes: RealNodes, kind: str, topic: str) -> None:
    """It dies of its only attempt, is listed as dead, and comes again after a redrive."""
    await nodes.done(f"PUT /v1/topics/{topic}", ONE_ATTEMPT)
    ids = await KINDS[kind](nodes, topic, "1ms")
    receipts = [each["receipt"] for each in await nodes.pull(topic, len(ids))]
    await nodes.done(f"POST /v1/topics/{topic}/nack", {"receipts": receipts})
    dead = (await nodes.done(f"GET /v1/topics/{topic}/dead"))["items"]
    assert sorted(each["id"] for each in dead) == sorted(ids)
    redriven = await nodes.done("POST /v1/messages/redrive", {"topic": topic})
    assert redriven["changed"] == len(ids)
    await nodes.take(topic, ids)


async def _transfer(nodes: RealNodes, kind: str, topic: str) -> None:
    """Leadership moves while it waits and while it is leased: it comes once, and its ack counts."""
    ids = await KINDS[kind](nodes, topic, "300ms")
    await nodes.done("POST /v1/cluster/transfer", {})
    pulled = await nodes.pull(topic, len(ids))
    await nodes.done("POST /v1/cluster/transfer", {})
    receipts = [each["receipt"] for each in pulled]
    results = (await nodes.done(f"POST /v1/topics/{topic}/ack", {"receipts": receipts}))["results"]
    assert [each["result"] for each in results] == ["acked"] * len(ids)
    assert await nodes.pull(topic, 1, 0.6) == []


async def _ledger(nodes: RealNodes, kind: str, topic: str) -> None:
    """The account of all nodes says that it was delivered once."""
    ids = await KINDS[kind](nodes, topic, "1ms")
    await nodes.take(topic, ids)
    for id in ids:
        told = (await nodes.done(f"GET /v1/messages/{id}"))["ledger"]
        assert told["class"] == "delivered_once", told


Event = Callable[[RealNodes, str, str], Awaitable[None]]
EVENTS: Final[dict[str, Event]] = {
    "retry": _retry,
    "cancel": _cancel,
    "reschedule": _reschedule,
    "operation": _operation,
    "dead-letter-and-redrive": _dead_letter_and_redrive,
    "transfer": _transfer,
    "ledger": _ledger,
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_cell(shared: Runner, kind: str, event: str) -> None:
    """An event that each cell makes for itself."""
    shared.run(EVENTS[event](shared.nodes, kind, f"{kind}-{event}"))


async def _of_all_kinds(nodes: RealNodes, event: str, delay: str) -> dict[str, list[str]]:
    return {kind: await make(nodes, f"{kind}-{event}", delay) for kind, make in KINDS.items()}


@pytest.fixture(scope="module")
def failed_over(shared: Runner) -> dict[str, dict[str, list[str]]]:
    """The ids by event and kind. The leader was killed before they were due, in fast and in strict topics."""

    async def story() -> dict[str, dict[str, list[str]]]:
        nodes, found = shared.nodes, {}
        for way in ("fast", "strict"):
            for kind in KINDS:
                await nodes.done(f"PUT /v1/topics/{kind}-failover-{way}", {"handover": way})
            found[f"failover-{way}"] = await _of_all_kinds(nodes, f"failover-{way}", "2s")
        await nodes.kill_leader()
        return found

    made: dict[str, dict[str, list[str]]] = shared.run(story())
    return made


@pytest.mark.parametrize("event", ["failover-fast", "failover-strict"])
@pytest.mark.parametrize("kind", KINDS)
def test_cell_of_a_failover(
    shared: Runner, failed_over: dict[str, dict[str, list[str]]], kind: str, event: str
) -> None:
    """The leader dies before it is due: the next one delivers it, once."""
    ids = failed_over[event][kind]
    shared.run(shared.nodes.take(f"{kind}-{event}", ids, 20.0))


@pytest.fixture(scope="module")
def restored(shared: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runner, dict[str, list[str]]]]:
    """A new cluster made from a backup, whose leader was killed, and the ids by kind of what the backup had."""

    async def story() -> tuple[dict[str, list[str]], str]:
        ids = await _of_all_kinds(shared.nodes, "backup-and-restore", HOUR)
        leader = await shared.nodes.leader()  # a follower may lack the newest entry
        return ids, (await shared.nodes.done("POST /v1/cluster/snapshot", {}, at=leader))["directory"]

    ids, backup = shared.run(story())
    with real_nodes(tmp_path_factory.mktemp("restored"), Path(backup)) as runner:
        runner.run(runner.nodes.kill_leader())
        yield runner, ids


@pytest.mark.parametrize("kind", KINDS)
def test_cell_of_a_restore(restored: tuple[Runner, dict[str, list[str]]], kind: str) -> None:
    """It waits in the new cluster, keeps its id, and comes once when it is released."""
    runner, ids = restored
    topic = f"{kind}-backup-and-restore"

    async def story() -> None:
        begun = await runner.nodes.done("POST /v1/operations", {"kind": "release", "topic": topic})
        assert (await runner.nodes.ended(begun["id"]))["changed"] == len(ids[kind])
        await runner.nodes.take(topic, ids[kind])

    runner.run(story())
