"""A whole run: consumers on every node, producers, then waiting for what is still outstanding.

Outstanding is an acknowledged message that neither was handed over nor may have been cancelled. The run ends when none
is left and every ack has its answer, or when `drain_s` is over: then the rest is lost as far as anybody outside can
tell, and the checkers say so.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence

import aiohttp

from chaos.cluster.local_nodes import LOOPBACK, LocalNode
from chaos.history.event import Answered, Cancelled, Event, HandedOver
from chaos.history.history import History
from chaos.load.changer import Racer
from chaos.load.consumer import AGAIN_S, Acker, Consumer
from chaos.load.fates import Fates
from chaos.load.producer import Producer
from chaos.load.webhooks import Webhooks
from chaos.plan.load_plan import Plan


class Outstanding:
    """Numbers acknowledged and not yet handed over or cancelled; counts for displays."""

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
            case HandedOver(taken=True) | Cancelled(outcome="cancelled" | "unknown"):
                self._over.add(event.number)
                self._left.discard(event.number)
                if not self._left:
                    self._none_left.set()
            case _:
                return

    async def none_left(self) -> None:
        """Returns when nothing is outstanding; call it after the last offer's outcome."""
        await self._none_left.wait()


async def configure(nodes: Sequence[LocalNode], topic: str, document: Mapping[str, object], request_s: float) -> None:
    """Creates a topic, so that there is one to wait at; tries the nodes in turn until one has done it.

    Raises RuntimeError when its settings are refused.
    """
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=request_s)) as http:
        for node in itertools.cycle(nodes):
            try:
                async with http.put(f"{node.url}/v1/topics/{topic}", json=document) as answer:
                    if answer.status < 300:
                        return
                    if answer.status < 500:
                        raise RuntimeError(f"topic refused: {await answer.text()}")
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(AGAIN_S)


class Workload:
    """One run of `plan` against `nodes`, recorded in `history`.

    `webhooks` listens at `host` as long as its owner wants: what a killed leader had on the wire comes again after
    `run`.
    """

    def __init__(self, nodes: Sequence[LocalNode], plan: Plan, history: History, host: str = LOOPBACK) -> None:
        self.nodes, self.plan, self.history = list(nodes), plan, history
        self.outstanding = Outstanding(history)
        self.webhooks = Webhooks(plan, history, host)
        self._producer = Producer(self.nodes, plan, history)
        self._ackers = [Acker(self.nodes, turn, plan, history) for turn in range(len(self.nodes))]
        self._fates = [Fates(self.nodes, turn, plan, history, acker.queue) for turn, acker in enumerate(self._ackers)]

    def stop(self) -> None:
        """Nothing new is offered; `run` goes on until what was offered is over."""
        self._producer.stop()

    async def run(self) -> bool:
        """Offers and consumes everything; False when something was still outstanding at the end."""
        plan = self.plan
        pulled = {"mode": "pull", "lease": plan.lease_ms, "handover": plan.handover}
        await configure(self.nodes, plan.topic, pulled, plan.request_s)
        if plan.push_share:
            await configure(self.nodes, plan.push_topic, self.webhooks.topic(), plan.request_s)
        async with self.consuming():
            await self._producer.run()
            return await self.drain()

    @contextlib.asynccontextmanager
    async def consuming(self) -> AsyncIterator[None]:
        """Consumers, ackers and the racer run inside this block."""
        tasks = [asyncio.create_task(acker.run()) for acker in self._ackers]
        tasks += [asyncio.create_task(fates.run()) for fates in self._fates]
        for node, fates in zip(self.nodes, self._fates, strict=True):
            for number in range(self.plan.consumers_per_node):
                consumer = Consumer(f"{node.node_id}/{number}", node, self.plan, self.history, fates.decide)
                tasks.append(asyncio.create_task(consumer.run()))
        if self.plan.cancel_share or self.plan.reschedule_share:
            tasks.append(asyncio.create_task(Racer(self.nodes, self.plan, self.history).run()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def drain(self) -> bool:
        """Waits until nothing is outstanding and all acks are answered; False when `drain_s` went by first."""
        try:
            async with asyncio.timeout(self.plan.drain_s):
                await self.outstanding.none_left()
                for acker in self._ackers:
                    await acker.queue.join()
        except TimeoutError:
            return False
        return True
