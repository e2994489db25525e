"""The lives of messages that the reconciliation judges: what is done to each, and what the report must say of it.

A life takes messages of one kind in a topic of its own, and returns their ids. Lives of all kinds run side by side.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.semantics.kinds import KINDS
from tests.semantics.real_nodes import ONE_ATTEMPT, RealNodes, Said
from tests.waiting import until

HOUR: Final = "1h"
ROUNDS: Final = 6
Ids = dict[str, list[str]]
"""The ids of messages by kind."""


@dataclass(frozen=True)
class Told:
    """What the report says of a message. The causes are those of its duplicates."""

    message_class: str
    flags: frozenset[str] = frozenset()
    late_cause: str = "none"
    causes: tuple[str, ...] = ()

    @classmethod
    def of(cls, message_class: str, *flags: str, late_cause: str = "none", causes: tuple[str, ...] = ()) -> Told:
        """With these flags."""
        return cls(message_class, frozenset(flags), late_cause, causes)


async def _delivered(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Delivered once. It counts as late from its last due time on, also if it was extended."""
    ids = await KINDS[kind](nodes, topic, "1ms")
    await nodes.ack(topic, ids)
    return ids


async def _pushed(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Delivered once, by webhook. The receiver's log says so too."""
    target = {"url": nodes.receiver_url}
    await nodes.done(f"PUT /v1/topics/{topic}", {"mode": "push", "target": target, "paused": True})
    ids = await KINDS[kind](nodes, topic, "1ms")  # none is delivered before it is replaced or extended
    await nodes.done(f"PATCH /v1/topics/{topic}", {"paused": False})
    await _all(nodes, ids, "delivered")
    return ids


async def _retried(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Delivered once, and retried. A nack makes no duplicate."""
    ids = await KINDS[kind](nodes, topic, "1ms")
    await _nack(nodes, topic, len(ids), delay="50ms")
    await nodes.ack(topic, ids)
    return ids


async def _dead(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Dead, after its only attempt, and not received, because its consumer refused it."""
    await nodes.done(f"PUT /v1/topics/{topic}", ONE_ATTEMPT)
    ids = await KINDS[kind](nodes, topic, "1ms")
    await _nack(nodes, topic, len(ids))
    await _all(nodes, ids, "dead")
    return ids


async def _cancelled(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Cancelled, never lost, after DELETE."""
    ids = await KINDS[kind](nodes, topic, HOUR)
    for id in ids:
        await nodes.done(f"DELETE /v1/messages/{id}")
    return ids


async def _cancel(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Cancelled, never lost, after an operation that cancels all of its topic."""
    ids = await KINDS[kind](nodes, topic, HOUR)
    await _operate(nodes, "cancel", topic, len(ids))
    return ids


async def _rescheduled(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Delivered once, and rescheduled, after PATCH. It counts as late from its new due time on."""
    ids = await KINDS[kind](nodes, topic, HOUR)
    for id in ids:
        await nodes.done(f"PATCH /v1/messages/{id}", {"delay": "1ms"})
    await nodes.ack(topic, ids)
    return ids


async def _shift(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Delivered once, and rescheduled, after a shift. It counts as late from its new due time on."""
    ids = await KINDS[kind](nodes, topic, HOUR)
    await _operate(nodes, "shift", topic, len(ids), by="-3599s")
    await nodes.ack(topic, ids)
    return ids


async def _release(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Delivered once, and rescheduled, after a release. It counts as late from the release on."""
    ids = await KINDS[kind](nodes, topic, HOUR)
    await _operate(nodes, "release", topic, len(ids))
    await nodes.ack(topic, ids)
    return ids


async def _redrive(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Delivered once, retried and redriven, after it was dead."""
    ids = await _dead(nodes, kind, topic)
    await _operate(nodes, "redrive", topic, len(ids))
    await nodes.ack(topic, ids)
    return ids


async def _resend(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Delivered more than once. The cause of the duplicate is `resent`."""
    ids = await _delivered(nodes, kind, topic)
    await _operate(nodes, "resend", topic, len(ids))
    await nodes.ack(topic, ids)
    return ids


async def _paused(nodes: RealNodes, kind: str, topic: str) -> list[str]:
    """Pending and overdue, never lost. The late cause is `pause`."""
    await nodes.done(f"PUT /v1/topics/{topic}", {"paused": True})
    ids = await KINDS[kind](nodes, topic, "1ms")
    await _all(nodes, ids, "ready")
    return ids


Life = Callable[[RealNodes, str, str], Awaitable[list[str]]]
LIVES: Final[dict[str, Life]] = {
    "delivered": _delivered,
    "pushed": _pushed,
    "retried": _retried,
    "dead": _dead,
    "cancelled": _cancelled,
    "cancel": _cancel,
    "rescheduled": _rescheduled,
    "shift": _shift,
    "release": _release,
    "redrive": _redrive,
    "resend": _resend,
    "paused": _paused,
}


async def held(nodes: RealNodes) -> Ids:
    """Pending and overdue, never lost, while a paused operation holds it. GET says `held` by `operation`."""
    first = {"topic": "first", "body": 1, "delay": "2s"}  # an operation moves messages in the order of due times
    await nodes.ask("POST /v1/messages/batch", [first] * 50)
    ids = await of_all_kinds(nodes, "held", "3s")
    topics = ["first", *(f"{kind}-held" for kind in KINDS)]
    begun = await nodes.done("POST /v1/operations", {"kind": "shift", "topic": topics, "by": "1h", "rate": 1})
    await nodes.done(f"POST /v1/operations/{begun['id']}/pause")
    for id in itertools.chain(*ids.values()):

        async def by_operation(id: str = id) -> bool:
            found = (await nodes.done(f"GET /v1/messages/{id}?ledger=false")).get("held")
            return found is not None and found["by"] == "operation"

        await until(by_operation)
    return ids


async def failover(nodes: RealNodes) -> tuple[Ids, dict[str, str]]:
    """Delivered more than once. The cause of the duplicate is `failover`."""
    # A leader may doubt its lead before it hands all kinds over. Then the next round has the kinds that are left.
    found: Ids = {}
    topics: dict[str, str] = {}
    for number in range(ROUNDS):
        name = f"failover-{number}"
        ids = {kind: await KINDS[kind](nodes, f"{kind}-{name}", "1ms") for kind in KINDS if kind not in found}
        for each in ids.values():
            await _all(nodes, each, "ready")
        handed = await _hand_over_and_die(nodes, [f"{kind}-{name}" for kind in ids])
        for kind, each in ids.items():
            await nodes.ack(f"{kind}-{name}", each, 30.0)
            if handed[f"{kind}-{name}"] == len(each):
                found[kind], topics[kind] = each, f"{kind}-{name}"
        if len(found) == len(KINDS):
            return found, topics
    raise AssertionError(f"no leader handed over what it did not commit, in {ROUNDS} rounds: only {sorted(found)}")


async def _hand_over_and_die(nodes: RealNodes, topics: list[str]) -> dict[str, int]:
    """Pull at a leader that nobody follows, and kill all nodes. So the Leases are in no log that the next leader has.
    Return how many messages came, by topic."""
    cluster = nodes.cluster
    leader = await cluster.wait_leader()
    others = [node_id for node_id in cluster.nodes if node_id != leader.node_id]
    for node_id in others:
        cluster.pause(node_id)

    async def pull(topic: str) -> int:
        said: Said | None = await nodes.once(f"POST /v1/topics/{topic}/pull", {"max": 10}, at=leader.node_id)
        return len(nodes.got(said.document["messages"])) if said is not None and said.status == 200 else 0

    counts = await asyncio.gather(*map(pull, topics))
    for node_id in cluster.nodes:
        await cluster.kill(node_id)
    cluster.start(*others)
    await cluster.wait_leader(leader.term)
    cluster.start(leader.node_id)
    await cluster.wait_ready()
    return dict(zip(topics, counts, strict=True))


async def of_all_kinds(nodes: RealNodes, life: str, delay: str) -> Ids:
    """Make messages of all kinds, each in its own topic."""
    return {kind: await make(nodes, f"{kind}-{life}", delay) for kind, make in KINDS.items()}


async def _nack(nodes: RealNodes, topic: str, count: int, **fields: str) -> None:
    receipts = [each["receipt"] for each in await nodes.pull(topic, count, 10.0, status=500)]
    assert len(receipts) == count
    await nodes.done(f"POST /v1/topics/{topic}/nack", {"receipts": receipts} | fields)


async def _operate(nodes: RealNodes, kind: str, topic: str, count: int, **fields: Any) -> None:
    begun = await nodes.done("POST /v1/operations", {"kind": kind, "topic": topic} | fields)
    assert (await nodes.ended(begun["id"]))["changed"] == count


async def _all(nodes: RealNodes, ids: list[str], state: str) -> None:
    async def are() -> bool:
        return await nodes.states(ids) == {state}

    await until(are)


TOLD: Final[dict[str, Told]] = {
    "delivered": Told.of("delivered_once"),
    "pushed": Told.of("delivered_once"),
    "retried": Told.of("delivered_once", "retried"),
    "dead": Told.of("dead", "not_received"),
    "cancelled": Told.of("cancelled"),
    "cancel": Told.of("cancelled"),
    "rescheduled": Told.of("delivered_once", "rescheduled"),
    "shift": Told.of("delivered_once", "rescheduled"),
    "release": Told.of("delivered_once", "rescheduled"),
    "redrive": Told.of("delivered_once", "retried", "redriven"),
    "resend": Told.of("delivered_more", "resent", causes=("resent",)),
    "paused": Told.of("pending", "overdue", late_cause="pause"),
    "held": Told.of("pending", "overdue"),
    "failover": Told.of("delivered_more", "unknown_outcome", causes=("failover",)),
}
"""What the report must say of the messages of each life."""
