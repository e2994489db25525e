"""The commands that a leader's dispatcher adds to each entry that leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from replication.command.dispatch import DispatchState
from replication.command.handover import Lease, Release


class LeaderCommands(NamedTuple):
    """A field is None if there is no such command. The dispatcher is notified when the entry with `lease`, `planned` or
    `release` is applied."""

    lease: Lease | None = None  # of hand-overs made, and of strict ones that wait for it
    state: DispatchState | None = None
    planned: Lease | None = None  # of strict pushes to be made at their times
    release: Release | None = None  # of strict ones that will not be made

    def commands(self) -> Iterator[DispatchState | Lease | Release]:
        """The commands that are there."""
        return (command for command in self if command is not None)

    @property
    def awaited(self) -> bool:
        """True if anything but the state is there."""
        return self.lease is not None or self.planned is not None or self.release is not None


NOTHING_RIDES: Final = LeaderCommands()
