"""`make chaos-scenarios`: one kind of fault at a time, 20 of each. `python -m chaos.scenario SCENARIO` runs one of
them.

Each scenario prints its verdicts with their figures, and how many faults they rest on. If none of n faults broke a
promise, that proves only, at 95 %, that less than 3/n of them do. Each scenario leaves its history and its timeline.
Exit status 1 if any promise is broken.
"""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from chaos.check.engine.yields import check_yields
from chaos.history.bounds import Bounds
from chaos.live.report import write_report
from chaos.live.result import otherwise
from chaos.live.run import PLAIN, LiveRun
from chaos.live.verdicts import ONE_BY_ONE
from chaos.plan.fault_plan import FaultPlan
from chaos.plan.load_plan import Plan
from chaos.scenario.plans import (
    CALM_S,
    again_and_again,
    clock_steps,
    kills,
    of_all,
    pauses,
    plan,
    replacements,
    rolling_restarts,
    slowed,
    transfers,
)


@dataclass(frozen=True)
class Scenario:
    """The faults of a scenario as lines of a plan, the load under them, the bounds of the checkers, and further
    settings of nodes."""

    lines: Sequence[str]
    load: Plan
    bounds: Bounds = ONE_BY_ONE
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def plan(self) -> FaultPlan:
        """The lines as a plan of faults."""
        return plan(self.lines)

    @property
    def times(self) -> int:
        """The number of faults that come one after the other."""
        return sum(fault.begins == "+" for fault in self.plan.faults)


#: The calm between transfers under a high load. It is short, because at 5,000 messages a second a history grows by
#: 20,000 events a second.
BUSY_CALM_S: Final = 0.5
#: A leader outvoted by one clock only, while the third node is paused, may be this much early (docs/operating.md).
SKEWED: Final = replace(ONE_BY_ONE, skew_ms=510)
#: Where no node is left, three processes start at once on two cores before one can lead.
NONE_LEFT: Final = replace(ONE_BY_ONE, window_ms=5_000)


def scenarios(times: int) -> dict[str, Scenario]:
    """All scenarios by name, each with `times` faults."""
    common = Plan(batch=10, lease_ms=10_000, push_share=0.4, push_fail_share=0.02)
    load = replace(common, rate=1_000, cancel_share=0.01)
    pinned = replace(common, rate=1_500, batch=15, consumers_per_node=4)
    busy = replace(common, rate=2_000, batch=20)
    waiting = replace(load, push_answer_ms=200)
    rated = replace(common, rate=5_000, batch=100, push_share=0.2, push_fail_share=0.0, push_answer_ms=60)
    races = replace(common, rate=200, cancel_share=0.4, reschedule_share=0.4)
    leaders = kills(times, "leader")
    stops = again_and_again(times, "stop", ["leader"], f"+{CALM_S}")
    gap = replace(ONE_BY_ONE, gap_p99_ms=100)
    return {
        "kill-leader": Scenario(leaders, load),
        "kill-follower": Scenario(kills(times, "follower", "last"), load),
        "kill-all": Scenario(of_all(times, "kill"), load, NONE_LEFT, settings={"storage": {"checkpoint_s": 1}}),
        "kill-leader-strict": Scenario(leaders, replace(load, strict=True)),
        "kill-leader-slow": Scenario(slowed(leaders, 0.2), replace(common, rate=500)),
        "pause-leader": Scenario(pauses(times, 3.0), pinned),
        "transfer": Scenario(transfers(times), busy),
        "transfer-busy": Scenario(transfers(times, BUSY_CALM_S), rated, gap),
        "stop-leader": Scenario(stops, load),
        "stop-all": Scenario(of_all(times, "stop"), waiting, NONE_LEFT),
        "rolling-restart": Scenario(rolling_restarts(times), waiting),
        "replace": Scenario(replacements(times), load),
        "race": Scenario(leaders, races),
        "race-strict": Scenario(leaders, replace(races, strict=True)),
        "clock": Scenario(clock_steps(times), load, SKEWED),
    }


async def run(name: str, scenario: Scenario, directory: Path) -> bool:
    """Run one scenario and print the result. True if all promises held and every fault of the plan came."""
    plan, load = scenario.plan, scenario.load
    print(f"{name}: {scenario.times} faults at {load.rate:g} messages/s ...", flush=True)
    directory.mkdir(parents=True)
    (directory / "plan.txt").write_text(plan.render(), encoding="utf-8")
    setup = replace(PLAIN, bounds=scenario.bounds, settings=scenario.settings, further=(check_yields,))
    async with LiveRun(plan, load, directory, setup=setup) as live:
        await live.run()
        result = await live.judge()
    write_report(plan, result, directory, f"{name}, {load.rate:,g} messages a second", scenario.bounds)
    print(result.describe())
    for line in (missed := otherwise(plan, result)):
        print(line)
    held = not result.broken and not missed
    chance = f"none in {scenario.times}: less than {3 / scenario.times:.1%} a fault at 95 %"
    print(f"{name}: {chance if held else 'BROKEN'}; history and timeline in {directory}\n", flush=True)
    return held


def main() -> None:
    """Run the named scenarios (default: all) and judge them by the promises."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(scenarios(1))}")
    parser.add_argument("--times", type=int, default=20, help="faults in each")
    parser.add_argument("--dir", type=Path, default=Path("chaos-data"), help="made anew; kept for looking at")
    options = parser.parse_args()
    if options.times < 1:
        parser.error(f"--times is 1 or more, found {options.times}")
    known = scenarios(options.times)
    if unknown := [name for name in options.scenarios if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    held = True
    for name in options.scenarios or known:
        directory = options.dir / name
        if directory.exists():
            shutil.rmtree(directory)
        held &= asyncio.run(run(name, known[name], directory))
    sys.exit(0 if held else 1)
