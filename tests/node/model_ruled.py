"""The random cluster with a rule that changes its mind: what it holds waits, and is handed over when it lets go."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from node.handover.lease_book import HandOver
from storage.format.array import U64, Mask
from storage.format.hold_reasons import HoldReason
from storage.wheel.slot import DueUnits
from tests.node.model import Model

KINDS = 4


class ByNumber:
    """Holds units by the last bits of their position."""

    reason = HoldReason(200, "number", False, "its number does not please")
    leaves_out = False

    def __init__(self) -> None:
        self.blocked = {0}
        self.asked = self.held_units = 0

    def may_hold(self, positions: U64) -> bool:
        """See Rule."""
        return True

    def held(self, units: DueUnits, now_ms: int) -> Mask:
        """See Rule."""
        assert len(units), "nobody asks about nothing"
        assert len({len(column) for column in (units.due_ms, units.topic, units.tags, units.priority)}) == 1
        self.asked += len(units)
        held = np.isin(units.position % KINDS, [*self.blocked])
        self.held_units += int(held.sum())
        return held

    def holds(self, position: int) -> bool:
        """Whether it holds this one now."""
        return position % KINDS in self.blocked


class RuledModel(Model):
    """As Model; the rule is asked at each hand-over, and again of what it held."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.rule = ByNumber()
        self.rules = (self.rule,)
        super().__init__(directory, seed)

    def wait(self) -> None:
        """Time passes, and the rule may change its mind. Whether it says so or not: it is asked again."""
        super().wait()
        if self.random.random() < 0.5:
            self.rule.blocked ^= {self.random.randrange(KINDS)}
            if self.random.random() < 0.5:
                self.leader_term.dispatcher.handing_over.ask_again()

    def check_hand_over(self, topic: str, found: HandOver) -> None:
        """Nothing that is held goes out."""
        super().check_hand_over(topic, found)
        self._check_free(found)

    def add_leased_ahead(self, topic: str, made: HandOver) -> HandOver:
        """Nor is it leased."""
        self._check_free(made)
        return super().add_leased_ahead(topic, made)

    def _check_free(self, made: HandOver) -> None:
        held = [position for position in made.position.tolist() if self.rule.holds(position)]
        assert not held, f"{held} are held"

    def check_complete(self) -> None:
        """When it holds nothing, all comes out."""
        self.rule.blocked.clear()
        if self.random.random() < 0.5:
            self.leader_term.dispatcher.handing_over.ask_again()
        super().check_complete()
