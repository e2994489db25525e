"""One clock is an hour slow when the leader is cut off."""

from collections.abc import Callable
from typing import Any

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from chaos.client.outcome import Outcome
from chaos.simulator.world.world import World

LEASE_MS = 30_000
STRICT = TopicChange(
    mode="pull", lease_ms=LEASE_MS, handover="strict", paused=False, target=None, retry=None, dead_letter=None
)


def ask(world: World, node_id: str, call: Callable[[Any], Any], **more: Any) -> Any:
    """The answer; None where there is none to be had."""
    got: list[Outcome[Any]] = []
    world.client(node_id).call(call, got.append, label="slow clock", **more)
    world.run_until(lambda: bool(got), 6.0)
    return got[0].value if got and got[0].kind == "ok" else None


@pytest.mark.parametrize("nodes", [3, 5])
def test_the_next_leader_is_not_held_back_by_it_and_a_strict_lease_runs_as_long_as_it_says(nodes: int) -> None:
    """For two seconds those that were cut off seem to be connected, and nobody hears their clocks."""
    with World(1, nodes=nodes) as world:
        world.start()
        assert world.run_until(lambda: world.leader() is not None, 20.0)
        world.run(4.0)
        leader = world.leader()
        assert leader is not None
        assert ask(
            world, leader, lambda port: port.put_topic("s", STRICT, create=True, if_match=None, principal=ANONYMOUS)
        )
        slow, *right = [node_id for node_id in world.ids if node_id != leader]
        world.processes[slow].clock.jump(-3_600.0)
        world.run(3.0)
        away = (leader, *right[: nodes // 2 - 1])
        world.network.partition(away, tuple(node_id for node_id in world.ids if node_id not in away))
        assert world.run_until(lambda: world.leader() not in (None, *away), 5.0)
        following = world.leader()
        assert following is not None
        message = MessageIn(topic="s", body=b"now", delay_ms=0)
        assert ask(world, following, lambda port: port.schedule([message], ANONYMOUS))
        pull = PullIn(topic="s", wait_ms=1_000, lease_ms=None)
        until_s, got = world.now_s + 6.0, []
        while world.now_s < until_s:
            if more := ask(world, following, lambda port: port.pull(pull, ANONYMOUS), pulls=True, timeout_s=4.0):
                got += more
        (delivery,) = got
        assert delivery.leased_until_ms > world.now_ms + LEASE_MS - 7_000
