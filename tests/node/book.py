"""What the log says of each unit, told by the results of its entries: the judge's side of the dispatcher's model.

It is kept in plain objects, one per unit, and shares nothing with the store's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replication.command import Cancel, Command, Lease, PutTopic, Schedule, Settle
from replication.machine import Applied
from storage.due import Due
from storage.second_wheel import SecondWheel


@dataclass(slots=True)
class Unit:
    """What the log says of a unit, and what consumers saw of it."""

    due_ms: int
    topic: str
    index: int  # of the entry that brought it
    settled: bool = False
    leased: bool = False  # the log has a lease of it
    lease_end_ms: int = 0
    seen: tuple[int, int] = (0, 0)  # (term, attempt) of its newest hand-over

    def open_at(self, now_ms: int) -> bool:
        """Whether it is ready by the records."""
        return not self.settled and self.due_ms <= now_ms and (not self.leased or self.lease_end_ms <= now_ms)


class RecordingWheel(SecondWheel):
    """Remembers what it gave out."""

    def __init__(self, preload_s: int = 10, *, start_ms: int) -> None:
        super().__init__(preload_s, start_ms=start_ms)
        self.given: set[int] = set()

    def take(self, now_ms: int) -> Due:
        """As the wheel; a unit it gives twice is an error."""
        due = super().take(now_ms)
        positions = due.position.tolist()
        assert len(set(positions)) == len(positions)
        assert not len(due) or int(due.due_ms.max()) <= now_ms
        self.given |= set(positions)
        return due


def record(units: dict[int, Unit], paused: set[str], commands: Sequence[Command], applied: Applied) -> list[int]:
    """Enter in the book what an entry did; returns the positions whose Lease it held."""
    leased: list[int] = []
    for command, result in zip(commands, applied.results, strict=True):
        if isinstance(command, Schedule):
            rows = zip(result.position.tolist(), result.due_ms.tolist(), strict=True)
            units |= {position: Unit(due_ms, command.topics[0], applied.index) for position, due_ms in rows}
        elif isinstance(command, PutTopic):
            (paused.add if command.settings.get("paused") else paused.discard)(command.name)
        elif isinstance(command, Settle | Cancel):
            named = command.position if isinstance(command, Settle) else command.home
            refusals = result if isinstance(command, Settle) else result.result
            for position, refused in zip(named.tolist(), refusals.tolist(), strict=True):
                units[position].settled |= not refused
        elif isinstance(command, Lease):
            leased += command.position.tolist()
            for position, end_ms in zip(command.position.tolist(), command.lease_end_ms.tolist(), strict=True):
                unit = units[position]
                if not unit.settled:
                    unit.leased, unit.lease_end_ms = True, end_ms
    return leased
