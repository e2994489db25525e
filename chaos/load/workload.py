"""A whole run: consumers on every node, producers, then the wait for outstanding messages.

A message is outstanding if it was answered 201, was not handed over, and cannot have been cancelled. The run ends when
none is left and every ack request has its answer, or after `drain_s`. Messages that are still outstanding then count as
lost, and the checkers say so.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import aiohttp

from chaos.client.account import Accounts
from chaos.client.caller import Caller, every_node
from chaos.client.changer import Changer, Changes
from chaos.client.consumer import Consumer, ConsumerBehaviour, Fate
from chaos.client.many import ManyOperations, Windows
from chaos.client.many_cancels import ManyCancels
from chaos.client.many_moves import ManyMoves
from chaos.client.whole_batches import WholeBatches
from chaos.client.wishes import Wishes
from chaos.history.event import Answered, Cancelled, Event, Gone, HandedOver, Rescheduled
from chaos.history.history import History
from chaos.load.client import HttpClient, Tasks, caller_of, session
from chaos.load.producer import Producer
from chaos.load.webhooks import Webhooks
from chaos.plan.load_plan import Plan
from cli.local.local_nodes import LOOPBACK, LocalNode
from hourwheel.core.addresses import parse_addresses
from hourwheel.core.errors import HourwheelError, error_of, unanswered
from hourwheel.core.nodes import Nodes
from hourwheel.core.problem import read_problem
from hourwheel.core.retry import next_try

AGAIN_S: Final = 0.05
#: The time between two beats, at which a consumer's acks go together.
BEAT_S: Final = 0.05
#: A change aims this much earlier after one that came too late.
AIM_MS: Final = 5
#: The numbers of the messages in topics of sets begin here.
SET_NUMBERS: Final = 1 << 26
#: The average time between two operations of a kind.
SETS_EVERY_S: Final = 3.0
#: Their windows. The checkers are sure of messages that are due in more than 8 s (`lease_ahead_ms`).
SET_WINDOWS: Final[Windows] = (
    ((-500, 500, 200, 2_000), 1),
    ((500, 4_000, 2_000, 6_000), 2),
    ((6_000, 9_000, 4_000, 9_000), 3),
)
#: After a cancel or a reschedule, one in this many messages is asked for by GET.
LOOKED: Final = 4


class Outstanding:
    """Keeps the numbers (names) of the messages that were answered 201 and are not yet handed over or cancelled.
    `acknowledged_count` and `over_count` count messages, for displays."""

    def __init__(self, history: History) -> None:
        self.acknowledged_count = 0
        self._over: set[int] = set()
        self._left: set[int] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()
        history.listen(self._see)

    @property
    def over_count(self) -> int:
        """Messages handed over or cancelled so far."""
        return len(self._over)

    def _see(self, event: Event) -> None:
        match event:
            case Answered(outcome="acknowledged"):
                self.acknowledged_count += 1
                if event.number not in self._over:
                    self._left.add(event.number)
                    self._none_left.clear()
            case HandedOver(taken=True) | Cancelled(outcome="cancelled" | "unknown") | Gone():
                self._over.add(event.number)
                self._left.discard(event.number)
                if not self._left:
                    self._none_left.set()
            case _:
                return

    async def none_left(self) -> None:
        """Return when nothing is outstanding. Call it after the last offer's outcome."""
        await self._none_left.wait()


async def configure(nodes: Sequence[LocalNode], topic: str, document: Mapping[str, object], request_s: float) -> None:
    """Create a topic, so that consumers can wait at it. Try the nodes in turn until one has done it.

    Raises RuntimeError when its settings are refused.
    """
    known, loop = Nodes(parse_addresses(node.url for node in nodes)), asyncio.get_running_loop()
    error: HourwheelError
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=request_s)) as http:
        while True:
            address = known.order(loop.time())[0]
            try:
                async with http.put(f"{address}/v1/topics/{topic}", json=document) as answer:
                    if answer.status < 300:
                        return
                    error = error_of(read_problem(answer.status, answer.headers, await answer.read()), address.url)
            except (aiohttp.ClientError, TimeoutError) as broken:
                error = unanswered(address.url, repr(broken))
            if next_try("PUT", True, error) is None:  # to put a topic twice is to put it once
                raise RuntimeError(f"topic refused: {error}")
            known.failed(address, loop.time())
            await asyncio.sleep(AGAIN_S)


class Workload:
    """One run of `plan` against `nodes`, recorded in `history`.

    Changes and offers go only to nodes for which `is_member` returns True. The caller enters and leaves `webhooks`, the
    receiver at `host`. It should stay open after `run`, because pushes that a killed leader had on the wire come again
    later.
    """

    def __init__(
        self,
        nodes: Sequence[LocalNode],
        plan: Plan,
        history: History,
        host: str = LOOPBACK,
        is_member: Callable[[str], bool] = every_node,
    ) -> None:
        self.nodes, self.plan, self.history, self._is_member = list(nodes), plan, history, is_member
        self.outstanding = Outstanding(history)
        self.webhooks = Webhooks(plan, history, host)
        self._producers = [Producer(self.nodes, plan, history, is_member)]
        if plan.sets:
            few = replace(plan, rate=plan.sets_rate, batch=2, delay_ms=plan.sets_delay_ms, due_together_ms=1)
            first = SET_NUMBERS
            self._producers.append(Producer(self.nodes, few, history, is_member, topics=plan.set_topics, first=first))
        self._consumers: list[Consumer] = []
        self._many: list[ManyOperations] = []
        self._beside: list[Wishes | WholeBatches | ManyOperations] = []
        self._healed = asyncio.Event()

    def stop(self) -> None:
        """Stop offering. `run` still waits until no message is outstanding."""
        for producer in self._producers:
            producer.stop()

    def healed(self) -> None:
        """Note that all faults are healed. Without it `run` does not end if the plan has `sets`, because it asks then
        what became of operations of unknown outcome."""
        self._healed.set()

    async def run(self) -> bool:
        """Create the topics, offer all messages and consume them. Return False if messages were outstanding at the
        end."""
        plan = self.plan
        pulled = {"mode": "pull", "lease": plan.lease_ms, "handover": plan.handover}
        for topic in (plan.topic, *plan.set_topics):
            await configure(self.nodes, topic, pulled, plan.request_s)
        if plan.push_share:
            await configure(self.nodes, plan.push_topic, self.webhooks.topic(), plan.request_s)
        async with self.consuming():
            await asyncio.gather(*(producer.run() for producer in self._producers))
            return await self.drain()

    @contextlib.asynccontextmanager
    async def consuming(self) -> AsyncIterator[None]:
        """Run consumers and the changer inside this block. Calls that are under way at the end of the block are given
        up, and their outcome is not recorded."""
        plan = self.plan
        async with (
            session(plan.request_s) as http,
            contextlib.AsyncExitStack() as polls,
            asyncio.TaskGroup() as group,
        ):
            tasks = Tasks(group)

            def caller_named(name: str) -> Caller[HttpClient]:
                return caller_of(self.nodes, http, tasks, f"{plan.seed}/{name}", self._is_member)

            caller = caller_named("load")
            for node in self.nodes:
                for number, topic in enumerate([plan.topic] * plan.consumers_per_node + list(plan.set_topics)):
                    poll = await polls.enter_async_context(session(plan.request_s, connections=1))
                    client, name = HttpClient(node, poll), f"{node.node_id}/{number}"
                    self._consumers.append(Consumer(client, caller, self.history, topic, behaviour(plan), name))
                    tasks.start(self._consumers[-1].run())
            changes = Changes(plan.cancel_share, plan.reschedule_share, plan.reschedule_ms, aim_ms=AIM_MS)
            changer, accounts = Changer(caller, self.history, changes), Accounts(caller, self.history)

            def look(event: Event) -> None:
                if isinstance(event, Cancelled | Rescheduled) and event.number % LOOKED == 0:
                    tasks.start(accounts.look(event))

            self.history.listen(look)
            self._begin_beside(caller_named, changer)
            try:
                yield
            finally:
                changer.end()
                tasks.cancel()

    def _begin_beside(self, caller_named: Callable[[str], Caller[HttpClient]], changer: Changer) -> None:
        """Begin the wishes, the atomic batches and the operations of the plan."""
        plan, history = self.plan, self.history
        topics = (plan.topic, plan.push_topic) if plan.push_share else (plan.topic,)
        changer.others_move = plan.wishes or plan.sets > 0
        if plan.wishes:
            strict = topics if plan.strict else ()
            self._beside.append(Wishes(caller_named("wishes"), history, topics, strict))
            self._beside.append(WholeBatches(caller_named("batches"), history, topics, strict))
        if plan.sets:
            self._many.append(ManyCancels(caller_named("cancels"), history, plan.set_topics, SETS_EVERY_S))
            self._many.append(ManyMoves(caller_named("moves"), history, plan.set_topics, SETS_EVERY_S))
        for many in self._many:
            many.windows, many.meanwhile = SET_WINDOWS, (changer.cancel, changer.move)
        self._beside += self._many
        for each in self._beside:
            each.begin()

    async def _end_beside(self) -> None:
        """Return when the wishes, batches and operations have their outcomes, and all messages of sets were asked
        about."""
        for each in self._beside:
            each.end()
        for each in self._beside:
            await each.answered()
        if self._many:
            await self._healed.wait()
        for many in self._many:
            many.finish()
        for many in self._many:
            await many.answered()

    async def drain(self) -> bool:
        """Wait until nothing is outstanding and all acks are answered. False if `drain_s` went by first."""
        try:
            async with asyncio.timeout(self.plan.drain_s):
                await self._end_beside()
                await self.outstanding.none_left()
                for consumer in self._consumers:
                    await consumer.answered()
        except TimeoutError:
            return False
        return True


def behaviour(plan: Plan) -> ConsumerBehaviour:
    """Return how consumers treat their messages, by the shares and times of the plan."""
    odd: tuple[tuple[Fate, float], ...] = (
        ("twice", plan.twice_share),
        ("late", plan.late_share),
        ("forget", plan.forget_share),
        ("give back", plan.nack_share),
        ("extend", plan.extend_share),
    )
    return ConsumerBehaviour(
        fates=(("ack", 1.0 - sum(share for _, share in odd)), *odd),
        lease_ms=plan.lease_ms,
        pulled=(plan.pull_max,),
        nack_delays_ms=(plan.nack_delay_ms,),
        beat_s=BEAT_S,
        wait_ms=plan.wait_ms,
        refused_s=AGAIN_S,
        extend_ms=plan.lease_ms,
        ack_s=plan.retry_s,
    )
