"""A host's clocks on virtual time. Its crystal, which drives both clocks, may run fast or slow. Its wall clock may also
be wrong, step or be steered.

    monotonic = the host's own zero + true time x (1 + crystal)              timeouts and trust use it
    wall      = epoch + offset + true time x (1 + crystal + steering)        set by hand, or moved by NTP

Every host counts its monotonic time from a zero of its own. So a program that compares the monotonic times of two hosts
goes wrong at once. The clocks of a host without a fault may be off too. Its offset and its crystal's error are then
within what a cluster has to bear.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.simulator.time.cost import owed_s
from node.runtime.clock import NodeClock


class WorkingClock(NodeClock):
    """A clock that counts the work of the running step (cost.py). Virtual time stands still within a step. This clock's
    monotonic time goes on by what the step was charged so far, so that code can end a slice of work by time. It never
    goes back, because after the step the node does nothing until the charged time has passed. All parts of a node must
    use the same clock. In seed 12191 they did not: this clock stamped heartbeats, and their echoes were compared with a
    clock that stood still."""

    def monotonic(self) -> float:
        """See NodeClock."""
        return super().monotonic() + owed_s()


class SimClock:
    """The clocks of one host. They go on while its process is down. `now` returns the world's true time in seconds.
    `zero_s` is the first value of the monotonic clock. `off_s` and `ppm` are the errors that this host has without any
    fault: its wall clock is `off_s` seconds ahead, its crystal `ppm` millionths fast."""

    def __init__(
        self, now: Callable[[], float], *, epoch_s: float, zero_s: float, off_s: float = 0.0, ppm: float = 0.0
    ) -> None:
        self._now = now
        self._epoch_s = epoch_s
        self._off_s, self._ppm = off_s, ppm
        self._rate = 1.0 + ppm / 1e6
        self._since_s = now()
        self._monotonic_s = zero_s
        self._steering = 0.0
        self._wall_s = epoch_s + off_s + now()

    def monotonic(self) -> float:
        """The host's monotonic time in seconds: its own zero, and the time by its crystal since."""
        return self._monotonic_s + (self._now() - self._since_s) * self._rate

    def wall(self) -> float:
        """The seconds since 1970, as this host believes."""
        return self._wall_s + (self._now() - self._since_s) * (self._rate + self._steering)

    def true_s(self, monotonic_s: float) -> float:
        """The world's true time at which `monotonic` shows `monotonic_s`, if the crystal keeps its present rate."""
        return self._since_s + (monotonic_s - self._monotonic_s) / self._rate

    @property
    def skew_s(self) -> float:
        """How far the wall clock is ahead of the truth."""
        return self.wall() - self._epoch_s - self._now()

    def jump(self, seconds: float) -> None:
        """Step the wall clock by this many seconds: ahead, or back if negative."""
        self._settle()
        self._wall_s += seconds

    def true(self) -> None:
        """Set the wall clock to the true time plus `off_s`, the host's offset without a fault. Stop steering."""
        self._settle()
        self._steering = 0.0
        self._wall_s = self._epoch_s + self._off_s + self._now()

    def drift(self, ppm: float) -> None:
        """Let the crystal run `ppm` millionths faster than without a fault (0: end that). Timers, the monotonic and the
        wall clock follow it."""
        self._settle()
        self._rate = 1.0 + (self._ppm + ppm) / 1e6

    def steer(self, ppm: float) -> None:
        """Let the wall clock run `ppm` millionths faster than the crystal, as NTP does. Timers and the monotonic clock
        do not follow."""
        self._settle()
        self._steering = ppm / 1e6

    def node_clock(self, *, counts_work: bool) -> NodeClock:
        """A clock for a process on this host. With `counts_work` it goes on within a step (WorkingClock)."""
        return (WorkingClock if counts_work else NodeClock)(self.wall, self.monotonic)

    def _settle(self) -> None:
        monotonic_s, wall_s = self.monotonic(), self.wall()
        self._since_s, self._monotonic_s, self._wall_s = self._now(), monotonic_s, wall_s
