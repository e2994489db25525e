"""Asks every node again and again if it leads. Faults aim at the leader that is found. Each new leader is an event of
the history, and each answer to a transfer too.

Every node is asked on its own. So a node that stands still or is cut off does not delay the others' answers.
"""

import asyncio
import time
from typing import Final, Self

from chaos.cluster.cluster import READY_S, Cluster, Leadership
from chaos.history.event import Led, Transferred
from chaos.history.history import History

POLL_S: Final = 0.1
#: An answer older than this does not count.
STALE_S: Final = 1.5


class Watch:
    """Watches which node leads. Use as `async with`. `leader` returns the newest known leader."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._said: dict[str, tuple[float, Leadership | None]] = {}
        self._led: set[tuple[int, str]] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="watch")
        return self

    async def __aexit__(self, *error: object) -> None:
        tasks = [task for task in (self._task, *self._asking.values()) if task is not None]
        for task in tasks:
            task.cancel()
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(end, Exception):
                raise end

    def leader(self) -> str | None:
        """Return the id of the newest known leader, or None."""
        known = self.leadership()
        return known.node_id if known is not None else None

    def leadership(self) -> Leadership | None:
        """The newest leadership: of the nodes that lately said that they lead, the one of the highest term. None if no
        node did."""
        now_s = time.monotonic()
        fresh = [led for at_s, led in self._said.values() if led is not None and now_s - at_s < STALE_S]
        return max(fresh, key=lambda led: led.term, default=None)

    @property
    def term(self) -> int:
        """The highest term with a known leader."""
        return max((term for term, _ in self._led), default=0)

    async def wait_leader(self, after_term: int = 0, timeout_s: float = READY_S) -> Leadership:
        """Wait until a node says that it leads a term above `after_term`. Raises ClusterFailed."""
        leadership = await self._cluster.wait_leader(after_term, timeout_s)
        self._hear(leadership.node_id, leadership)
        return leadership

    async def transfer(self, via: str, to: str) -> Transferred:
        """Ask node `via` to move leadership to `to` ("": to the best). Return the answer, and record it in the history.
        Raises ClusterFailed when it is refused, aiohttp.ClientError or TimeoutError without an answer."""
        answer = await self._cluster.transfer(via, to)
        mono_ms, wall_ms = self._history.now()
        transferred = Transferred(
            mono_ms=mono_ms,
            wall_ms=wall_ms,
            source=answer["from"],
            target=answer["to"],
            asked=to,
            term_before=answer["term_before"],
            term_after=answer["term_after"],
            took_ms=answer["took_ms"],
            gap_ms=answer["gap_ms"],
            in_flight_carried=answer["in_flight_carried"],
            repeated=answer["repeated"],
        )
        self._history.record(transferred)
        return transferred

    async def _run(self) -> None:
        while True:
            for node_id in list(self._cluster.nodes):
                asking = self._asking.get(node_id)
                if asking is None or asking.done():
                    self._asking[node_id] = asyncio.create_task(self._ask(node_id))
            await asyncio.sleep(POLL_S)

    async def _ask(self, node_id: str) -> None:
        page = await self._cluster.status(node_id) if node_id in self._cluster.nodes else None
        leads = page is not None and page.get("leader") == node_id
        led = Leadership(node_id, int(page["term"]), int(page["commit_index"])) if page and leads else None
        self._hear(node_id, led)

    def _hear(self, node_id: str, led: Leadership | None) -> None:
        self._said[node_id] = (time.monotonic(), led)
        if led is not None and (led.term, node_id) not in self._led:
            self._led.add((led.term, node_id))
            mono_ms, wall_ms = self._history.now()
            self._history.record(Led(mono_ms=mono_ms, wall_ms=wall_ms, term=led.term, leader=node_id))
