"""The files of a run: its plan, verdicts and timeline, and its clients' records for the reconciliation.

    plan.txt             the plan, to run again or to edit
    history.ndjson       every call, answer, hand-over and fault, in order
    verdict.txt, .json   what held, with figures; what was not shown, and why
    timeline.*           faults, leaders, rates, lateness, duplicates: text, JSON, PNG, SVG
    acknowledged.ndjson  ids that producers were answered 201 for     hourwheel reconcile --acknowledged
    receipts.ndjson      what consumers and webhook receivers took    hourwheel reconcile --receipts
    n1/data, ...         the nodes' directories, closed               hourwheel reconcile --data

The reconciliation reads the last three, each with the option beside it.
"""

from __future__ import annotations

import json
from pathlib import Path

from chaos.history.bounds import Bounds
from chaos.history.verdict import percentiles
from chaos.live.result import Result, kinds_not_shown
from chaos.live.verdicts import BOUNDS
from chaos.plan.fault_plan import FaultPlan, kinds_of
from chaos.report.evidence import write_evidence
from chaos.report.timeline import Timeline
from chaos.report.write_timeline import write as write_timeline


def lines_of(plan: FaultPlan, result: Result) -> list[str]:
    """The verdict as lines for people."""
    lines = [verdict.describe() for verdict in result.verdicts]
    fired = ", ".join(f"{kind} {count}" for kind, count in sorted(result.fired.items())) or "none"
    put_on, passed, planned = sum(result.fired.values()), sum(result.passed.values()), len(plan.faults)
    lines.append(f"faults: {put_on} put on ({fired}), {passed} passed over, of {planned} of the plan")
    lines += [f"   passed over {count} times: {reason}" for reason, count in sorted(result.reasons.items())]
    lines += [f"   not shown: {line}" for line in kinds_not_shown(plan, result, kinds_of("live"))]
    lines += [f"   came otherwise: {line}" for line in result.fell_short]
    if result.fail_stop_ms:
        lines.append(f"disks that failed: their nodes ended after (ms) {percentiles(result.fail_stop_ms)}")
    if result.damages:
        lines.append(f"damaged files: {len(result.damages)}")
        lines += [f"   {damage}" for damage in result.damages]
    if result.unaccounted_by_power:
        lines.append(f"pushes whose start a power cut took from their node's log: {result.unaccounted_by_power}")
    lines += [f"BROKEN: {line}" for line in result.beside]
    share = result.per_second
    lines.append(f"acknowledged {share['acknowledged']:,.0f}/s, handed over {share['handed_over']:,.0f}/s")
    chance = f"none in {put_on} faults: less than {3 / put_on:.1%} a fault at 95 %" if put_on else "no fault was put on"
    return [*lines, f"violations: {chance}" if not result.broken else f"VIOLATIONS: {len(result.broken)}"]


def document_of(plan: FaultPlan, result: Result) -> dict[str, object]:
    """The verdict as JSON for programs."""
    return {
        "plan": plan.render(),
        "violations": len(result.broken),
        "verdicts": [
            {"promise": each.promise, "holds": each.holds, "figure": dict(each.figure), "faults": each.faults[:100]}
            for each in result.verdicts
        ],
        "fired": result.fired,
        "passed": result.passed,
        "reasons": result.reasons,
        "not_shown": kinds_not_shown(plan, result, kinds_of("live")),
        "came_otherwise": result.fell_short,
        "damages": result.damages,
        "fail_stop_ms": percentiles(result.fail_stop_ms),
        "unaccounted_by_power": result.unaccounted_by_power,
        "per_second": result.per_second,
        "unfinished": result.unfinished,
    }


def write_report(plan: FaultPlan, result: Result, directory: Path, title: str, bounds: Bounds = BOUNDS) -> None:
    """Write all files except the plan, the history and the nodes' directories, which are there already."""
    (directory / "verdict.txt").write_text("\n".join(lines_of(plan, result)) + "\n", encoding="utf-8")
    text = json.dumps(document_of(plan, result), indent=2, default=str)
    (directory / "verdict.json").write_text(text + "\n", encoding="utf-8")
    history = result.history
    write_evidence(history, directory)
    write_timeline(Timeline.of(history, bounds), directory, title)
