"""A host's clocks on virtual time: a crystal that may run fast, and a wall clock that may be wrong, step or be steered.

    monotonic = a host's own zero + true time x (1 + crystal)      timeouts and trust use it
    wall      = epoch + that + offset + steering                   set by hand, or moved by NTP

Every host counts its monotonic time from another zero. A program that compares those of two hosts goes wrong at once. A
sound host may be off too, within the bounds of a cluster, by its offset and its crystal's error.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.simulator.time.cost import owed_s
from node.runtime.clock import NodeClock


class WorkingClock(NodeClock):
    """A clock whose monotonic time goes on within a step by the work of the step, so that work can be sliced by time.
    It never goes back, because the node rests as long before its next step. A node has only one: in seed 12191 it
    stamped heartbeats, and their echoes were compared with a clock that stood."""

    def monotonic(self) -> float:
        """See NodeClock."""
        return super().monotonic() + owed_s()


class SimClock:
    """The clocks of one host. They go on while its process is down. `now` returns the world's true time. `off_s` and
    `ppm` are the offset and the crystal's error of a sound host."""

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
        """The seconds of the host's crystal."""
        return self._monotonic_s + (self._now() - self._since_s) * self._rate

    def wall(self) -> float:
        """The seconds since 1970, as this host believes."""
        return self._wall_s + (self._now() - self._since_s) * (self._rate + self._steering)

    def true_s(self, monotonic_s: float) -> float:
        """The world's time at which the crystal will show this."""
        return self._since_s + (monotonic_s - self._monotonic_s) / self._rate

    @property
    def skew_s(self) -> float:
        """How far the wall clock is ahead of the truth."""
        return self.wall() - self._epoch_s - self._now()

    def jump(self, seconds: float) -> None:
        """Set the wall clock."""
        self._settle()
        self._wall_s += seconds

    def true(self) -> None:
        """Set the wall clock as right as this host's can be, and stop steering."""
        self._settle()
        self._steering = 0.0
        self._wall_s = self._epoch_s + self._off_s + self._now()

    def drift(self, ppm: float) -> None:
        """Let the crystal run faster than by itself. Timers, monotonic and wall clock follow it."""
        self._settle()
        self._rate = 1.0 + (self._ppm + ppm) / 1e6

    def steer(self, ppm: float) -> None:
        """Move the wall clock against the crystal, as NTP does."""
        self._settle()
        self._steering = ppm / 1e6

    def node_clock(self, *, counts_work: bool) -> NodeClock:
        """A clock for a process on this host. With `counts_work` it goes on within a step (WorkingClock)."""
        return (WorkingClock if counts_work else NodeClock)(self.wall, self.monotonic)

    def _settle(self) -> None:
        monotonic_s, wall_s = self.monotonic(), self.wall()
        self._since_s, self._monotonic_s, self._wall_s = self._now(), monotonic_s, wall_s
