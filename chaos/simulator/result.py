"""The result of a simulated run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from chaos.history.totals import Totals
from chaos.history.verdict import Verdict
from chaos.plan.fault_plan import FaultPlan


@dataclass
class Run:
    """The result of a run. `wrong` are violations that no checker reports, such as a step of the run that did not come
    to its end."""

    plan: FaultPlan
    verdicts: list[Verdict]
    fired: Counter[str]
    passed: Counter[str]
    hand_overs: int
    changes: int
    counts: bool
    trace: str
    simulated_s: float
    took_s: float  # seconds of one core
    wrong: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)

    @property
    def broken(self) -> list[str]:
        """All violations, as lines."""
        return self.wrong + [verdict.describe() for verdict in self.verdicts if not verdict.holds]

    @property
    def promises(self) -> set[str]:
        """The names of the broken promises."""
        return {verdict.promise for verdict in self.verdicts if not verdict.holds} | ({"end"} if self.wrong else set())
