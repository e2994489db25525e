"""Open-loop producers: each message is sent at its planned time, even if earlier ones have no answer yet. So a stalled
cluster shows as unknown and late messages, not as a slower workload."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from chaos.client.caller import every_node
from chaos.client.client import Offer
from chaos.client.sender import Sender
from chaos.history.history import History
from chaos.load.client import Tasks, caller_of, session
from chaos.plan.load_plan import Plan
from cli.local.local_nodes import LocalNode

#: Most messages of a request under an `Idempotency-Key`.
ONCE_MAX: Final = 3


class Producer:
    """Offers the plan's messages to any of `nodes` that is a member. It records what it sees in `history`. The numbers
    of the messages begin at `first`. `topics` replace the two topics of the plan."""

    def __init__(
        self,
        nodes: Sequence[LocalNode],
        plan: Plan,
        history: History,
        is_member: Callable[[str], bool] = every_node,
        *,
        topics: Sequence[str] = (),
        first: int = 0,
    ) -> None:
        self._nodes, self._plan, self._history, self._is_member = list(nodes), plan, history, is_member
        self._topics, self._first = topics, first
        self._random = np.random.default_rng(plan.seed)
        self._stopped = False

    def stop(self) -> None:
        """Stop offering."""
        self._stopped = True

    async def run(self) -> None:
        """Send every message at its planned time, until all are sent or `stop` is called. Return when the outcome of
        each is final."""
        plan, loop = self._plan, asyncio.get_running_loop()
        start, count = loop.time(), plan.count
        strict = (self._topics or (plan.topic, plan.push_topic)) if plan.strict else ()
        async with session(plan.request_s, connections=0) as http, asyncio.TaskGroup() as group:
            caller = caller_of(self._nodes, http, Tasks(group), f"{plan.seed}/producer", self._is_member)
            sender = Sender(caller, self._history, plan.retry_s)
            for first in range(0, count, plan.batch):
                await asyncio.sleep(max(0.0, start + first / plan.rate - loop.time()))
                if self._stopped:
                    break
                offers = self._draw(first, min(plan.batch, count - first))
                sender.offer(offers, strict)
                caller.runner.start(sender.send(offers))

    def _draw(self, first: int, count: int) -> list[Offer]:
        """Draw `count` offers, the first of them with the number `first`, which go out as one request. Those under an
        `Idempotency-Key` are fewer, because they are sent one by one."""
        now_ms = self._history.now()[1]
        low, high = self._plan.delay_ms
        delays = self._random.integers(low, high, count, endpoint=True)
        keyed = bool(self._random.random() < self._plan.keyed_share)
        pushed = bool(self._random.random() < self._plan.push_share)
        once = not keyed and bool(self._random.random() < self._plan.once_share)
        topic = self._plan.push_topic if pushed else self._plan.topic
        if self._topics:
            topic = str(self._random.choice(self._topics))
        together_ms = self._plan.due_together_ms
        dues = [-(-(now_ms + int(delay)) // together_ms) * together_ms for delay in delays]
        rows = range(min(count, ONCE_MAX) if once else count)
        return [Offer(self._first + first + row, topic, dues[row], keyed, once) for row in rows]
