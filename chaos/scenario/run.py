"""`make chaos-scenarios`: one kind of fault at a time, 20 of each; `python -m chaos.scenario SCENARIO` runs one of
them.

Each prints its verdicts with their figures, how many trials they stand for (n trials without a failure say only "less
than 3/n"), and leaves its history and its timeline behind for looking at. Exit status 1 if any promise is broken.
"""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.history.bounds import Bounds
from chaos.plan.load_plan import Plan
from chaos.report.timeline import Timeline
from chaos.report.write_timeline import write
from chaos.scenario.scenario import (
    Script,
    clock_steps,
    kills,
    kills_of_all,
    pauses,
    replacements,
    rolling_restarts,
    slow_followers,
    stops,
    stops_of_all,
    transfers,
)
from chaos.scenario.trial import Trial


@dataclass(frozen=True)
class Scenario:
    """A script with the load it runs under; `times` is the number of faults."""

    script: Script
    times: int
    plan: Plan
    slow: bool = False
    skewed: bool = False
    spare: int = 0
    bounds: Bounds = Bounds()  # noqa: RUF009
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


FOREVER_S = 3_600.0
#: At 5,000 a second a history grows by 20,000 events a second.
BUSY_CALM_S = 0.5
#: A leader outvoted by one clock only, while the third node is paused, may be this much early (docs/operating.md).
SKEWED = Bounds(skew_ms=510)


def scenarios(times: int) -> dict[str, Scenario]:
    """All scenarios by name, each with so many faults."""
    forever = Plan(duration_s=FOREVER_S, batch=10, lease_ms=10_000, push_share=0.4, push_fail_share=0.02)
    load = replace(forever, rate=1_000, cancel_share=0.01)
    slow_load = replace(forever, rate=500)
    pinned = replace(forever, rate=1_500, batch=15, consumers_per_node=4)
    busy = replace(forever, rate=2_000, batch=20)
    waiting = replace(load, push_answer_ms=200)
    rated = replace(forever, rate=5_000, batch=100, push_share=0.2, push_fail_share=0.0, push_answer_ms=60)
    races = replace(forever, rate=200, cancel_share=0.4, reschedule_share=0.4)
    return {
        "kill-leader": Scenario(kills("leader", times), times, load),
        "kill-follower": Scenario(kills("follower", times), times, load),
        "kill-all": Scenario(kills_of_all(times), times, load, settings={"storage": {"checkpoint_s": 1}}),
        "kill-leader-strict": Scenario(kills("leader", times), times, replace(load, strict=True)),
        "kill-leader-slow": Scenario(slow_followers(200, kills("leader", times)), times, slow_load, slow=True),
        "pause-leader": Scenario(pauses(times, 3.0), times, pinned),
        "transfer": Scenario(transfers(times), times, busy),
        "transfer-busy": Scenario(transfers(times, BUSY_CALM_S), times, rated, bounds=Bounds(gap_p99_ms=100)),
        "stop-leader": Scenario(stops(times), times, load),
        "stop-all": Scenario(stops_of_all(times), times, waiting),
        "rolling-restart": Scenario(rolling_restarts(times), 3 * times, waiting),
        "replace": Scenario(replacements(times), times, load, spare=times),
        "race": Scenario(kills("leader", times), times, races),
        "race-strict": Scenario(kills("leader", times), times, replace(races, strict=True)),
        "clock": Scenario(clock_steps(times), times, load, skewed=True, bounds=SKEWED),
    }


async def run(name: str, scenario: Scenario, directory: Path) -> bool:
    """Runs one scenario and prints what came out; whether all promises held."""
    print(f"{name}: {scenario.times} faults at {scenario.plan.rate:g} messages/s ...", flush=True)
    made = {name: getattr(scenario, name) for name in ("slow", "skewed", "settings", "spare")}
    async with Trial(directory, scenario.plan, **made) as trial:
        await trial.run(scenario.script)
        outcome = await trial.judge(scenario.bounds)
    write(Timeline.of(trial.history, scenario.bounds), directory, f"{name}, {scenario.plan.rate:,g} messages a second")
    print(outcome.describe())
    held = not outcome.broken
    chance = f"none in {scenario.times}: less than {3 / scenario.times:.1%} a fault at 95 %"
    print(f"{name}: {chance if held else 'BROKEN'}; history and timeline in {directory}\n", flush=True)
    return held


def main() -> None:
    """Runs the scenarios named (default: all) and judges them by the promises."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(scenarios(1))}")
    parser.add_argument("--times", type=int, default=20, help="faults in each")
    parser.add_argument("--dir", type=Path, default=Path("chaos-data"), help="made anew; kept for looking at")
    options = parser.parse_args()
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
