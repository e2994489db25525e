"""The commands of the leader itself that go into each entry, and where the proposer gets them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from replication.command.dispatch import DispatchState
from replication.command.handover import Lease, Release


class LeaderCommands(NamedTuple):
    """The Leases, the Release and the dispatch state for one entry. A field is None if the entry has no such command.
    The dispatcher is told when an entry with `lease`, `planned` or `release` is applied."""

    lease: Lease | None = None  # of fast hand-overs that were made, and of strict ones that begin once it is applied
    state: DispatchState | None = None
    planned: Lease | None = None  # of strict pushes that begin at their due times
    release: Release | None = None  # takes back the leases of strict hand-overs that will not be made

    def commands(self) -> Iterator[DispatchState | Lease | Release]:
        """Yield the fields that are not None."""
        return (command for command in self if command is not None)

    @property
    def awaited(self) -> bool:
        """True if there is a command whose entry the dispatcher must be told of: any but the dispatch state."""
        return self.lease is not None or self.planned is not None or self.release is not None


NOTHING_RIDES: Final = LeaderCommands()


class LeaderCommandSource(Protocol):
    """The commands that go in every entry: Leases, Releases and the dispatch state (node/leader/leader_term.py)."""

    def collect(self, now_ms: int, *, going: bool) -> LeaderCommands:
        """Return the commands that were not proposed yet, each once. If the entry has no other command (`going` is
        False), return only those that are due."""

    def committed(self) -> None:
        """Note that the oldest entry with collected commands is applied. Entries are applied in the order of
        `collect`."""

    def returned(self) -> None:
        """Note that the entry with the commands that `collect` returned last was not proposed."""
