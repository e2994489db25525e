"""Leadership goes from A to B and back to A within one second, in which 1,000 messages are due.

The second term of A must take nothing from its first: not the wheel, not the ready windows, not the leases it had not
yet committed. What B did in between stands in the log alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from api.port.port import ANONYMOUS
from chaos.client.client import Offer
from chaos.history.event import Sure
from chaos.history.history import History
from chaos.history.repeats import repeats
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.judge import BOUNDS, judge
from chaos.simulator.load import consumer
from chaos.simulator.load.load import PULL, PUSH, STRICT_PULL, STRICT_PUSH, Producer, Shape
from chaos.simulator.run import Running
from chaos.simulator.world.receivers import Behaviour
from chaos.simulator.world.world import World
from node.leader.backlog import BacklogReader

MESSAGES = 1_000
#: From the beginning of the load to the second in which all are due.
AHEAD_MS = 3_000
TOPICS = {"fast": (PULL, PUSH), "strict": (STRICT_PULL, STRICT_PUSH)}
#: Two elections fit into a second.
QUICK = {"heartbeat_ms": 20, "trust_ms": 80, "election_min_ms": 120, "election_max_ms": 200}
SEEDS = (1, 2)
LOOK_S = 0.001


@dataclass
class SeenTerm:
    """A time for which one node was sure to lead, in one term; true time, ms."""

    node: str
    term: int
    from_ms: float
    to_ms: float


def seen_terms(history: History) -> list[SeenTerm]:
    """In the order of their terms."""
    found: dict[int, SeenTerm] = {}
    for event in history.of(Sure):
        leader_term = found.setdefault(event.term, SeenTerm(event.node, event.term, event.mono_ms, event.mono_ms))
        leader_term.to_ms = event.mono_ms
    return [found[term] for term in sorted(found)]


class Scene(Running):
    """A run whose load is 1,000 messages of one mode, due within one second; their consumers do nothing odd."""

    def __init__(self, seed: int, world: World, mode: str) -> None:
        super().__init__(FaultPlan(seed, 3, 8), world, Shape(cancel_share=0, move_share=0))
        self.mode = mode
        self.due_s = 0.0

    def offer(self, producer: Producer) -> None:
        """All of them at once, in requests of 100."""
        now_ms = self.history.now()[1]
        first_ms = now_ms + AHEAD_MS
        self.due_s = self.world.now_s + AHEAD_MS / 1000
        for begin in range(0, MESSAGES, 100):
            numbers = range(begin, begin + 100)
            offers = [Offer(number, TOPICS[self.mode][number % 2], first_ms + number, True) for number in numbers]
            producer.offer(offers)
        self.targets.calm()

    def in_the_second(self, part: float, call: Callable[[], object]) -> None:
        """`call` when this part of the second has passed."""
        self.world.after(self.due_s + part - self.world.now_s, call)


Disturb = Callable[[Scene], None]


def play(monkeypatch: pytest.MonkeyPatch, seed: int, mode: str, raft: dict[str, int], disturb: Disturb) -> History:
    """Run the scene, see that every promise held and that leadership went there and back."""
    monkeypatch.setattr(consumer, "FATES", (("ack", 1.0),))
    config = {"raft": raft} | {"storage": {"checkpoint_s": 1}}
    with World(seed, config=config, turn_s=1_000) as world:
        scene = Scene(seed, world, mode)
        for name in ("mixed", "strict"):
            world.receivers.behave(name, Behaviour())

        def begin(producer: Producer) -> None:
            scene.offer(producer)
            disturb(scene)

        monkeypatch.setattr(Producer, "begin", begin)
        wrong = scene.run()
        history = scene.history
    assert not wrong
    broken = [verdict.describe() for verdict in judge(history, BOUNDS) if not verdict.holds]
    assert not broken, "\n".join(broken)
    assert len(history.acknowledged()) == MESSAGES
    assert len(history.hand_overs()) == MESSAGES
    assert len(seen_terms(history)) >= 3, seen_terms(history)
    first, second, third = seen_terms(history)[-3:]
    assert first.node == third.node != second.node, seen_terms(history)
    assert third.from_ms - first.to_ms < 1_000
    by_term = {event.term for events in history.hand_overs().values() for event in events}
    assert by_term == {first.term, second.term, third.term}, "each of the three terms handed something over"
    return history


@pytest.mark.parametrize("mode", list(TOPICS))
def test_leadership_that_is_moved_there_and_back_repeats_nothing(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Two planned transfers, the second as soon as the first is done: nothing is lost, nothing comes twice."""

    def disturb(scene: Scene) -> None:
        def move() -> None:
            world = scene.world
            home = world.leader() or "n1"
            away = next(node_id for node_id in world.ids if node_id != home)
            client = world.client(home)

            def back(_: object) -> None:
                client.call(lambda port: port.transfer(home, principal=ANONYMOUS), lambda _: None, label="back")

            client.call(lambda port: port.transfer(away, principal=ANONYMOUS), back, label="there")

        scene.in_the_second(0.2, move)

    history = play(monkeypatch, SEEDS[0], mode, {}, disturb)
    assert not repeats(history, BOUNDS)


def lose_it_twice(scene: Scene) -> None:
    """A stands still; when B leads, and A is back, B stands still."""
    world = scene.world
    voters: list[str] = []

    def aside() -> None:
        """One of the three shall only vote, so that it is A or B who leads."""
        third = next(node_id for node_id in reversed(world.ids) if node_id != world.leader())
        voters.append(third)
        call = world.client(third).call
        call(lambda port: port.drain(None, principal=ANONYMOUS), lambda _: None, label="drain", leader=False)

    def stand_still(seconds: float) -> None:
        """The leader, as soon as the one who is to follow has all entries: else nobody could be elected."""
        nodes, leader = world.nodes(), world.leader()
        follower = next(node_id for node_id in world.ids if node_id not in (leader, *voters))
        if leader is None or nodes[follower].group.raft.last_index < nodes[leader].group.raft.last_index:
            world.after(LOOK_S, stand_still, seconds)
            return
        world.processes[leader].pause()
        world.after(seconds, world.processes[leader].resume)

    world.after(1.0, aside)
    scene.in_the_second(0.1, lambda: stand_still(0.27))
    scene.in_the_second(0.7, lambda: stand_still(0.6))


@pytest.mark.parametrize("mode", list(TOPICS))
@pytest.mark.parametrize("seed", SEEDS)
def test_leadership_that_is_lost_there_and_back_repeats_what_was_in_flight(
    monkeypatch: pytest.MonkeyPatch, seed: int, mode: str
) -> None:
    """A stands still, B is elected, A comes back and is elected when B stands still. Nothing is lost. Strict: nothing
    comes twice. Fast: what each handed over in its last 50 ms, and had not committed, may."""

    history = play(monkeypatch, seed, mode, QUICK, lose_it_twice)
    found = repeats(history, BOUNDS)
    assert {repeat.cause for repeat in found} <= {"failover"}
    ends_ms = {leader_term.term: leader_term.to_ms for leader_term in seen_terms(history)}
    for repeat in found:
        assert mode == "fast"
        handed_over_ms = repeat.before.mono_ms
        assert ends_ms[repeat.before.term] - handed_over_ms <= 200, "long before its leader stood still"


def test_a_second_reign_that_ignores_the_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that believes its own former term, and does not look what B left open, loses that: the scene shows it."""
    promote, led = BacklogReader.promote, set[int]()

    def believes_itself(self: BacklogReader, newest_hour: int) -> None:
        store = id(self._store)
        if store not in led:
            promote(self, newest_hour)
        led.add(store)

    monkeypatch.setattr(BacklogReader, "promote", believes_itself)
    with pytest.raises(AssertionError, match="outstanding"):
        play(monkeypatch, SEEDS[0], "fast", QUICK, lose_it_twice)
