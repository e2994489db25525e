"""A crowd: messages in thousands of far hours, and messages with keys in one hour that ends and is unlinked under load.

No checker asks about these messages. They are there only for what they cost the nodes (`check_held`). The far ones fall
due after the run, one an hour. The ones with keys are due in the first hour of the run, which ends TURN_S after its
begin. So this hour is over, and unlinked, while the load goes on. In drawn plans all clocks pass the far hours too
(chaos/plan/draw.py). Then the far messages are due at once, and their hours are over, looked at, and unlinked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.port.port import ANONYMOUS, MessageIn, PullIn
from chaos.plan.draw import CROWD_FIRST_HOUR, CROWD_HOURS, CROWD_WEIGHT
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.load.client import caller_of
from chaos.simulator.load.load import RETRY_S
from chaos.simulator.world.world import HOUR_S, World

TOPIC: Final = "crowd"
#: The first hour ends this long after the begin of the run.
TURN_S: Final = 30.0
PULLED: Final = 250
LOOK_S: Final = 0.25


@dataclass(frozen=True)
class CrowdShape:
    """The size of a crowd. `weight`: how many rows each stored row stands for (time/cost.py)."""

    hours: int = CROWD_HOURS  # with one message each, all scheduled by one request
    keyed: int = 800  # messages with keys in the first hour; 0: none
    keyed_for_s: float = 8.0  # the time within which they are due
    weight: int = CROWD_WEIGHT


def crowd_of(plan: FaultPlan) -> CrowdShape:
    """The crowd of a plan. With older builds it has no keys: at level 1 an entry drops all keys of an hour at once, as
    those builds do."""
    return CrowdShape(weight=plan.crowd, keyed=0) if plan.older else CrowdShape(weight=plan.crowd)


class Crowd:
    """The crowd of one run. It begins and ends with the load."""

    def __init__(self, world: World, shape: CrowdShape) -> None:
        self._world, self._shape = world, shape
        self._caller = caller_of(world, "crowd")
        self._over = False

    def begin(self) -> None:
        """Schedule all messages within the first seconds, and begin to pull those that are due."""
        chance, world = self._caller.chance, self._world
        now_ms, hour_ms = world.now_ms, int(HOUR_S * 1000)
        first_ms = now_ms + CROWD_FIRST_HOUR * hour_ms
        far = [MessageIn(TOPIC, b"far", due_ms=first_ms + hour * hour_ms) for hour in range(self._shape.hours)]
        last_ms = int(self._shape.keyed_for_s * 1000)
        keyed = [
            MessageIn(
                TOPIC,
                b"keyed",
                due_ms=now_ms + 2_000 + chance.randrange(last_ms),
                key=f"crowd {number}",
                fingerprint=number.to_bytes(16, "big"),
            )
            for number in range(self._shape.keyed)
        ]
        self._caller.runner.after(1 + 10 * chance.random(), self._offer, far)
        if keyed:
            self._caller.runner.after(0.5 * chance.random(), self._offer, keyed)
        self._caller.runner.after(LOOK_S, self._pull)

    def end(self) -> None:
        """Stop pulling. Messages that were not acked stay open."""
        self._over = True

    async def _offer(self, messages: list[MessageIn]) -> None:
        """Schedule these messages, and try again until it is done. A key makes repeats safe. A message without one may
        be scheduled more than once."""
        await self._caller.insist(
            lambda client: client.call(lambda port: port.schedule(messages, ANONYMOUS), "crowd"),
            for_s=RETRY_S,
            again=True,
        )

    async def _pull(self) -> None:
        request = PullIn(TOPIC, max=PULLED, wait_ms=0, lease_ms=None)
        while not self._over:
            outcome = await self._caller.any().call(lambda port: port.pull(request, ANONYMOUS), "crowd pull")
            if outcome.value:
                self._caller.runner.start(self._ack([delivery.receipt for delivery in outcome.value]))
            await self._caller.runner.sleep(LOOK_S)

    async def _ack(self, receipts: list[str]) -> None:
        await self._caller.insist(
            lambda client: client.call(lambda port: port.ack(TOPIC, receipts, ANONYMOUS), "crowd ack"),
            for_s=RETRY_S,
            again=True,
        )
