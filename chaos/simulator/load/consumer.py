"""How consumers of a simulated cluster behave. When the load is over they ack everything, so that each message ends."""

from __future__ import annotations

from typing import Final

from api.port.port import Delivery
from chaos.client.consumer import Consumer, ConsumerBehaviour, Fates
from chaos.history.history import History
from chaos.simulator.load.client import caller_of
from chaos.simulator.load.load import DEAD, LEASE_MS
from chaos.simulator.load.probe import Probe
from chaos.simulator.world.world import World

ASKED_FATES: Final[Fates] = (
    ("ack", 0.6),
    ("give back", 0.1),
    ("extend", 0.15),
    ("late", 0.05),
    ("twice", 0.05),
    ("forget", 0.05),
)
FATES: Final[Fates] = (
    ("ack", 0.8),
    ("give back", 0.05),
    ("extend", 0.04),
    ("late", 0.03),
    ("twice", 0.03),
    ("forget", 0.05),
)
ALL_BACK_SHARE: Final = 0.08


def consumer(world: World, history: History, probe: Probe, node_id: str, topic: str, *, asks: bool = False) -> Consumer:
    """A consumer of one topic at one node. With `asks` (a run with an Asker) it extends and nacks more often, and nacks
    all messages of some pulls."""
    behaviour = ConsumerBehaviour(
        fates=ASKED_FATES if asks else FATES,
        lease_ms=LEASE_MS,
        pulled=(1, 5, 50, 50),
        nack_delays_ms=(None, 0, 700),
        beat_s=0.5,
        wait_ms=3_000,
        rest_s=(0.001, 0.02),
        late=(0.9, 0.2),
        all_back_share=ALL_BACK_SHARE if asks else 0.0,
    )

    def begun_ms(delivery: Delivery) -> int:
        begun = probe.begun.get((delivery.id, delivery.term, delivery.attempt))
        return begun.wall_ms if begun else 0

    caller = caller_of(world, f"consumer {node_id} {topic}")
    client, name = caller.clients[node_id], f"{node_id}/{topic}"
    return Consumer(client, caller, history, topic, behaviour, name, begun_ms=begun_ms, letters=topic == DEAD)
