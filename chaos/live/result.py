"""The result of a run on real processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.history.event import Offered
from chaos.history.history import History
from chaos.history.verdict import Verdict
from chaos.live.verdicts import broken
from chaos.plan.fault_plan import FaultPlan


@dataclass(frozen=True)
class Result:
    """The result of a run.

    - `fired` counts by kind the faults that were put on, `passed` those that were passed over. `reasons` says why.
    - `not_run` says by kind why this machine cannot carry it out.
    - `fell_short` lists what differed from the plan.
    - `disks` has the broken promises of disks, `damages` a line for each damage.
    - `fail_stop_ms` are the times from a failed disk operation to the end of its node.
    - `unaccounted_by_power` counts the pushes whose record a power cut took from their node's log.
    - `unfinished` lists the parts of the run that did not end.
    """

    history: History
    verdicts: list[Verdict]
    fired: dict[str, int]
    passed: dict[str, int]
    reasons: dict[str, int]
    not_run: dict[str, str]
    fell_short: list[str] = field(default_factory=list)
    disks: list[str] = field(default_factory=list)
    damages: list[str] = field(default_factory=list)
    fail_stop_ms: list[float] = field(default_factory=list)
    unaccounted_by_power: int = 0
    unfinished: list[str] = field(default_factory=list)

    @property
    def per_second(self) -> dict[str, float]:
        """Return how many messages a second were offered, answered 201 and handed over, from the first offer to the
        last."""
        offered_ms = [event.mono_ms for event in self.history.of(Offered)]
        length_s = max((max(offered_ms) - min(offered_ms)) / 1000, 1.0) if offered_ms else 1.0
        return {
            "offered": round(len(offered_ms) / length_s, 1),
            "acknowledged": round(len(self.history.acknowledged()) / length_s, 1),
            "handed_over": round(len(self.history.hand_overs()) / length_s, 1),
        }

    def figure(self, promise: str) -> Mapping[str, object]:
        """The figure of the verdict on this promise."""
        return next(verdict.figure for verdict in self.verdicts if verdict.promise == promise)

    def describe(self) -> str:
        """All verdicts and other violations, a line each."""
        return "\n".join([*(verdict.describe() for verdict in self.verdicts), *self.beside])

    @property
    def broken(self) -> list[str]:
        """All violations, as lines."""
        return broken(self.verdicts) + self.beside

    @property
    def beside(self) -> list[str]:
        """Violations that are not in the verdicts, as lines."""
        return [*self.disks, *self.unfinished]


def otherwise(plan: FaultPlan, result: Result) -> list[str]:
    """The differences from the plan, as lines: faults that did not come, that were passed over or not run, and faults
    that were not judged. Where faults come one after the other, such a difference fails the run."""
    came = sum(result.fired.values())
    lines = [f"{came} of {len(plan.faults)} faults came"] if came < len(plan.faults) else []
    lines += [f"passed over: {reason}" for reason in result.reasons]
    lines += [f"not run: {kind}: {why}" for kind, why in result.not_run.items()]
    for verdict in result.verdicts:
        figure = verdict.figure
        if verdict.promise == "R" and figure["judged"] != figure["faults"]:
            lines.append(f"R judged {figure['judged']} of {figure['faults']} faults: the others had no time to be over")
    return lines + result.fell_short


def kinds_not_shown(plan: FaultPlan, result: Result, kinds: Sequence[str]) -> list[str]:
    """One line for each kind of fault that this run did not show, with the reason."""
    planned = {fault.kind for fault in plan.faults}
    lines = []
    for kind in kinds:
        if kind in result.not_run:
            lines.append(f"{kind}: not run: {result.not_run[kind]}")
        elif kind not in planned:
            lines.append(f"{kind}: not in the plan")
        elif not result.fired.get(kind):
            why = next((reason for reason in result.reasons if reason.startswith(f"{kind}: ")), f"{kind}: not reached")
            lines.append(f"{kind}: passed over: {why.partition(': ')[2]}")
    return lines
