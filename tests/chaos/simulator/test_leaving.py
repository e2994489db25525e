"""A node that stops while another is down: whoever stays lets it go, and stands still no longer than it has to."""

from typing import Any

from api.port.port import ANONYMOUS, MessageIn, TopicChange
from chaos.client.outcome import Outcome
from chaos.simulator.world.receivers import Behaviour
from chaos.simulator.world.world import World
from node.cluster.drain import LEAVE_S
from tests.chaos.simulator.small_load import Load

SLOW_S = 0.9
TIMEOUT_MS = 20_000


def roles(world: World) -> tuple[str, str, str]:
    """Who leads, and stays; who stops; who is down."""
    leader = world.leader()
    assert leader is not None
    down, stops = (node_id for node_id in world.ids if node_id != leader)
    return leader, stops, down


def test_a_caretaker_that_is_elected_anew_lets_go() -> None:
    """One is down, one stops, and stands still for so long that the third loses its leadership and wins it again. It
    hands over then, and waited for its pushes to end, which they do not while it hands over: the one that stopped
    stayed for the whole LEAVE_S."""
    with World(1) as world:
        load = Load(world)
        load.found()
        world.receivers.behave("hook", Behaviour(low_s=0.8 * SLOW_S, high_s=SLOW_S))
        load.schedule(1_200, per_second=40)
        world.run(3)
        stays, stops, down = roles(world)
        leader, stopped = world.processes[stays].node, world.processes[stops]
        assert leader is not None
        term = leader.group.raft.term
        world.processes[down].kill()
        world.run(0.6)
        stopped.stop()
        world.run(0.2)
        assert world.run_until(lambda: leader.group.leadership.frozen, 1), "it cares for the one that stops"
        stopped.pause()
        assert world.run_until(lambda: leader.group.leader_term is None, 2)
        stopped.resume()
        assert world.run_until(lambda: leader.group.leader_term is not None, 3)
        assert leader.group.raft.term > term
        assert world.run_until(lambda: not stopped.alive, 0.2 * LEAVE_S)


def test_a_caretaker_hands_over_as_soon_as_a_majority_is_back() -> None:
    """A receiver takes its time while one is down and one stops. The first comes back, and so the second may go; the
    third handed nothing over until the receiver had answered, though nobody needed that any more."""
    with World(2) as world:
        load = Load(world)
        load.found()
        made: list[Outcome[Any]] = []
        url = world.receivers.url("hook")
        hook = TopicChange(target={"url": url, "timeout_ms": TIMEOUT_MS})
        load.clients[0].call(
            lambda port: port.put_topic("hook", hook, create=False, if_match=None, principal=ANONYMOUS),
            made.append,
            label="put_topic",
        )
        assert world.run_until(lambda: bool(made) and made[0].kind == "ok", 5)
        stays, stops, down = roles(world)
        leader, stopped = world.processes[stays].node, world.processes[stops]
        assert leader is not None

        def schedule(delay_ms: int) -> None:
            message = MessageIn(topic="hook", body=b"", delay_ms=delay_ms)
            client = load.clients[world.ids.index(stays)]
            client.call(lambda port: port.schedule([message], ANONYMOUS), load.outcomes.append, label="schedule")

        world.receivers.behave("hook", Behaviour(hang=True))
        schedule(0)
        assert world.run_until(lambda: len(world.receivers.log) == 1, 2)
        world.receivers.behave("hook", Behaviour())
        schedule(2_000)
        world.run(0.5)
        world.processes[down].kill()
        stopped.stop()
        assert world.run_until(lambda: leader.group.leadership.frozen, 1)
        world.processes[down].start()
        assert world.run_until(lambda: len(world.receivers.log) == 2, 4), "nothing was handed over"
        world.run(0.5)
        assert leader.group.push_feed.on_wire == 1, "the first is not answered yet"
        assert world.run_until(lambda: not stopped.alive, 2)
        assert world.leader() == stays
