"""A host's clocks on virtual time: a crystal that may run fast, and a wall clock that may be wrong, step or be steered.

    monotonic = a host's own zero + true time x (1 + crystal)      what timeouts and trust count in
    wall      = epoch + that + offset + steering                   what somebody set, or NTP moves

Every host counts its monotonic time from another zero: a program that compares those of two hosts goes wrong at once.
A host that nothing is wrong with may be off, too, by what a cluster allows: its offset and its crystal's error.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.simulator.time.cost import owed_s
from node.runtime.clock import NodeClock


class WorkingClock(NodeClock):
    """Its monotonic time goes on, within a step, by what the step did so far: what is cut into slices by time is cut
    here. It never goes back, for the node rests as long before its next step. A node has one: in seed 12191 heartbeats
    were stamped by it, and their echoes compared with a clock that stood."""

    def monotonic(self) -> float:
        """See NodeClock."""
        return super().monotonic() + owed_s()


class SimClock:
    """The clocks of one host; they go on while its process is down. `true_s` of the world is given by `now`. `off_s`
    and `ppm`: its offset and its crystal's error where nothing is wrong with it."""

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
        """Seconds of the host's own crystal."""
        return self._monotonic_s + (self._now() - self._since_s) * self._rate

    def wall(self) -> float:
        """Seconds since 1970, as this host believes."""
        return self._wall_s + (self._now() - self._since_s) * (self._rate + self._steering)

    def true_s(self, monotonic_s: float) -> float:
        """The world's time at which the crystal will show this."""
        return self._since_s + (monotonic_s - self._monotonic_s) / self._rate

    @property
    def skew_s(self) -> float:
        """How far the wall clock is ahead of the truth."""
        return self.wall() - self._epoch_s - self._now()

    def jump(self, seconds: float) -> None:
        """The wall clock is set."""
        self._settle()
        self._wall_s += seconds

    def true(self) -> None:
        """The wall clock is as right as this host's is, and nothing moves it."""
        self._settle()
        self._steering = 0.0
        self._wall_s = self._epoch_s + self._off_s + self._now()

    def drift(self, ppm: float) -> None:
        """The crystal runs so much faster than it does by itself: timers, monotonic and wall clock all do."""
        self._settle()
        self._rate = 1.0 + (self._ppm + ppm) / 1e6

    def steer(self, ppm: float) -> None:
        """The wall clock is moved against the crystal, as NTP does."""
        self._settle()
        self._steering = ppm / 1e6

    def node_clock(self, *, counts_work: bool) -> NodeClock:
        """A clock for a process on this host. `counts_work`: it goes on within a step (WorkingClock)."""
        return (WorkingClock if counts_work else NodeClock)(self.wall, self.monotonic)

    def _settle(self) -> None:
        monotonic_s, wall_s = self.monotonic(), self.wall()
        self._since_s, self._monotonic_s, self._wall_s = self._now(), monotonic_s, wall_s
