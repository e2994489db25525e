"""A small load for simulated worlds, and what came of it."""

from __future__ import annotations

from typing import Any

from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn, ScheduleResult, TopicChange
from chaos.client.outcome import Outcome
from chaos.simulator.world.client import Client
from chaos.simulator.world.world import World

#: A topic's settings, all of them, as a PUT arrives at the port.
PULL_TOPIC = TopicChange(
    mode="pull", lease_ms=3_000, handover="fast", paused=False, target=None, retry=None, dead_letter=None
)


class Load:
    """Schedules to the pull topic `queue` and the push topic `hook` through every node in turn, pulls and acks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.outcomes: list[Outcome[Any]] = []
        self.pulled: list[Delivery] = []
        self.clients = [world.client(node_id) for node_id in world.ids]

    def found(self, seconds: float = 20) -> None:
        """Start all nodes, wait for a leader, make the push topic."""
        world = self.world
        world.start()
        assert world.run_until(lambda: world.leader() is not None, seconds), "nobody was elected"
        hook = TopicChange(
            mode="push",
            lease_ms=3_000,
            handover="fast",
            paused=False,
            target={"url": world.receivers.url("hook"), "timeout_ms": 1_000},
            retry={"min_backoff_ms": 200, "max_backoff_ms": 1_000},
            dead_letter=None,
        )
        made: list[Outcome[Any]] = []
        self.clients[0].call(
            lambda port: port.put_topic("hook", hook, create=True, if_match=None, principal=ANONYMOUS),
            made.append,
            label="put_topic",
        )
        assert world.run_until(lambda: bool(made), 15)
        assert made[0].kind == "ok", made

    def schedule(self, count: int, *, per_second: float = 20, delay_ms: int = 1_000) -> None:
        """`count` messages one by one from now on, half of them to each topic, due within a second of `delay_ms`."""
        for number in range(count):
            self.world.after(number / per_second, self._schedule, number, delay_ms + number * 37 % 1_000)

    def _schedule(self, number: int, delay_ms: int) -> None:
        message = MessageIn(topic=("queue", "hook")[number % 2], body=b"%d" % number, delay_ms=delay_ms)
        client = self.clients[number % len(self.clients)]
        client.call(lambda port: port.schedule([message], ANONYMOUS), self.outcomes.append, label="schedule")

    def consume(self) -> None:
        """Pull and ack through every node, for ever."""
        for client in self.clients:
            self._pull(client)

    def _pull(self, client: Client) -> None:
        def pulled(outcome: Outcome[Any]) -> None:
            if outcome.kind == "ok" and outcome.value:
                self.pulled += outcome.value
                receipts = [delivery.receipt for delivery in outcome.value]
                client.call(lambda port: port.ack("queue", receipts, ANONYMOUS), lambda _: None, label="ack")
            self.world.after(0.05, self._pull, client)

        request = PullIn(topic="queue", wait_ms=2_000, lease_ms=3_000)
        client.call(lambda port: port.pull(request, ANONYMOUS), pulled, label="pull", pulls=True, timeout_s=4)

    @property
    def acknowledged(self) -> set[str]:
        """Ids of messages that a client was told are scheduled."""
        results = [each.value for each in self.outcomes if each.kind == "ok"]
        return {id.decode() for result in results if isinstance(result, ScheduleResult) for id in result.ids.tolist()}

    @property
    def handed_over(self) -> set[str]:
        """Ids of messages that came out."""
        return {each.id for each in self.pulled} | {each.id for each in self.world.receivers.log}
