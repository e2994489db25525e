"""The simulated network: what TCP promises a program, and what it does not."""

import random

import pytest

from chaos.simulator.network.network import Network, Socket
from chaos.simulator.time.loop import Scheduler
from chaos.simulator.time.trace import Trace


class Lab:
    """Hosts a and b, and what each end of a connection between them saw."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, random.Random(seed), Trace(lambda: self.scheduler.now))
        self.at_b: list[object] = []
        self.at_a: list[object] = []
        self.far: Socket | None = None
        self.near: Socket | None = None
        self.network.listen(("b", 1), lambda call, *args: call(*args), self._accepted)

    def _accepted(self, socket: Socket) -> None:
        self.far = socket
        socket.attach(self.at_b.append, lambda: self.at_b.append("end"))

    def _connected(self, socket: Socket) -> None:
        self.near = socket
        socket.attach(self.at_a.append, lambda: self.at_a.append("end"))

    def dial(self) -> Socket:
        """The connection's end at a."""
        self.network.connect("a", lambda call, *args: call(*args), ("b", 1), self._connected, self._refused)
        self.scheduler.run(self.scheduler.now + 1)
        assert self.near is not None
        return self.near

    def _refused(self) -> None:
        self.at_a.append("refused")


def pieces(count: int, start: int = 0) -> list[bytes]:
    """Distinct pieces."""
    return [b"%d" % number for number in range(start, start + count)]


@pytest.mark.parametrize("seed", range(10))
def test_a_connection_keeps_order_through_delays_losses_and_cuts(seed: int) -> None:
    """What arrives is a prefix of what was sent, in order; all of it unless the connection was reset."""
    lab = Lab(seed)
    near, drawn = lab.dial(), random.Random(seed)
    lab.network.delay("a", "b", 0.001, 0.1)
    lab.network.loss("*", "*", 0.05)
    for number, piece in enumerate(pieces(200)):
        lab.scheduler.at(1 + number * 0.01, near.send, piece, len(piece))
    for _ in range(4):
        at_s = drawn.uniform(1, 3)
        lab.scheduler.at(at_s, lab.network.cut, "a", "b")
        lab.scheduler.at(at_s + drawn.uniform(0, 1), lab.network.heal, "a", "b")
    lab.scheduler.run(60)
    got = [piece for piece in lab.at_b if piece != "end"]
    assert got == pieces(200)[: len(got)]
    assert len(got) == 200 or near.closed, "nothing is missing unless the connection broke"


def test_a_cut_is_one_way_and_what_it_holds_comes_after_it() -> None:
    """The other way goes on; nothing is lost in the connection that both ends keep."""
    lab = Lab()
    near = lab.dial()
    assert lab.far is not None
    lab.network.cut("a", "b")
    near.send(b"held", 4)
    lab.far.send(b"through", 7)
    lab.scheduler.run(5)
    assert (lab.at_a, lab.at_b) == ([b"through"], [])
    lab.network.heal("a", "b")
    near.send(b"later", 5)
    lab.scheduler.run(10)
    assert lab.at_b == [b"held", b"later"]


def test_what_an_aborted_connection_held_is_gone() -> None:
    """A reset during a cut drops what waited, and the other end hears of it when the way heals."""
    lab = Lab()
    near = lab.dial()
    lab.network.cut("a", "b")
    near.send(b"held", 4)
    near.reset()
    lab.scheduler.run(5)
    assert lab.at_b == []
    lab.network.heal("a", "b")
    lab.scheduler.run(10)
    assert lab.at_b == ["end"]


def test_a_killed_process_resets_and_a_power_cut_is_silent() -> None:
    """After a kill the peer hears the end at once; after a power cut nothing, until the host is up and is spoken to."""
    lab = Lab()
    lab.dial()
    lab.network.process_ended("b", silently=False)
    lab.scheduler.run(2)
    assert lab.at_a == ["end"]

    lab = Lab()
    near = lab.dial()
    lab.network.process_ended("b", silently=True)
    lab.network.power("b", up=False)
    near.send(b"lost", 4)
    lab.scheduler.run(5)
    assert lab.at_a == []
    lab.network.power("b", up=True)
    near.send(b"into nothing", 12)
    lab.scheduler.run(10)
    assert (lab.at_a, lab.at_b) == (["end"], [])


def test_dialling_is_refused_accepted_or_unanswered() -> None:
    """No listener: refused. Host down, or cut either way: nothing at all."""
    lab = Lab()
    lab.network.unlisten(("b", 1))
    lab.network.connect("a", lambda call, *args: call(*args), ("b", 1), lab._connected, lab._refused)
    lab.scheduler.run(1)
    assert lab.at_a == ["refused"]
    lab.network.cut("b", "a")
    lab.network.connect("a", lambda call, *args: call(*args), ("b", 1), lab._connected, lab._refused)
    lab.network.heal("b", "a")
    lab.network.cut("a", "b")
    lab.network.connect("a", lambda call, *args: call(*args), ("b", 1), lab._connected, lab._refused)
    lab.scheduler.run(10)
    assert lab.at_a == ["refused"]
    assert lab.near is None


def test_a_narrow_way_takes_its_time() -> None:
    """A kilobyte at 100 bytes a second takes ten seconds, and the next one ten more."""
    lab = Lab()
    near = lab.dial()
    lab.network.bandwidth("a", "b", 100)
    near.send(b"x" * 1000, 1000)
    near.send(b"y" * 1000, 1000)
    lab.scheduler.run(10.9)
    assert lab.at_b == []
    lab.scheduler.run(12)
    assert lab.at_b == [b"x" * 1000]
    lab.scheduler.run(22)
    assert lab.at_b == [b"x" * 1000, b"y" * 1000]


def test_connections_overtake_each_other() -> None:
    """Two connections of the same hosts are not in order with one another."""
    orders = set()
    for seed in range(20):
        lab = Lab(seed)
        lab.network.delay("a", "b", 0.001, 0.1)
        first, second = lab.dial(), lab.dial()
        first.send(b"1", 1)
        second.send(b"2", 1)
        lab.scheduler.run(lab.scheduler.now + 1)
        orders.add(tuple(lab.at_b))
    assert orders == {(b"1", b"2"), (b"2", b"1")}
