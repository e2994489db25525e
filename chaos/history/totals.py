"""The totals of runs: how often each cell, each race and each place of a kill occurred."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from chaos.history.cells import EVENTS, KINDS, RACES, Cell, cells, races
from chaos.history.history import History
from chaos.history.killed_requests import PLACES, Place, killed_requests

#: The requests whose kills are counted.
REQUESTS: Final = ("replace", "extend", "batch", "operation")


@dataclass
class Totals:
    """The totals of one or more runs."""

    cells: Counter[Cell] = field(default_factory=Counter)
    races: Counter[str] = field(default_factory=Counter)
    kills: Counter[Place] = field(default_factory=Counter)

    def add(self, other: Totals) -> None:
        """Add the totals of other runs."""
        self.cells += other.cells
        self.races += other.races
        self.kills += other.kills

    def lines(self) -> list[str]:
        """Tables for people: kind by event, the races, and the places of the kills by request."""
        head = f"{'messages':<10}" + "".join(f"{event:>16}" for event in EVENTS)
        rows = [f"{kind:<10}" + "".join(f"{self.cells[kind, event]:>16}" for event in EVENTS) for kind in KINDS]
        races = [f"{self.races[race]:>8}  {race}" for race in RACES]
        places = f"{'kills':<10}" + "".join(f"{place:>28}" for place in PLACES)
        kills = [f"{kind:<10}" + "".join(f"{self.kills[kind, place]:>28}" for place in PLACES) for kind in REQUESTS]
        return [head, *rows, "races", *races, places, *kills]


def totals_of(history: History) -> Totals:
    """The totals of one run."""
    return Totals(cells(history), races(history), killed_requests(history))
