"""`hourwheel chaos sim`: whole clusters in one process on virtual time, under faults drawn by seed, judged.

A seed is a run: same seed, same plan, same trace, on any machine. A run that breaks a promise prints its plan, the
command that replays it, and a smaller plan that breaks it too.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from chaos.fault_plan import FaultPlan
    from chaos.simulator.run import Run


class _Seeds(click.ParamType[range]):
    """A:B, from A up to and without B."""

    name = "A:B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """A range that is not empty."""
        if isinstance(value, range):
            return value
        first, colon, end = str(value).partition(":")
        if not colon or not first.isdecimal() or not end.isdecimal() or int(first) >= int(end):
            self.fail(f"A:B with A below B is expected (seeds A to B-1), found {value!r}", param, ctx)
        return range(int(first), int(end))


@click.group()
def command() -> None:
    """Break a cluster on purpose, and see what its promises are worth."""


@command.command()
@click.option("--seed", type=click.IntRange(min=0), help="this one seed")
@click.option("--seeds", type=_Seeds(), help="seeds A to B-1")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="a plan of faults written before")
@click.option("--seconds", type=click.FloatRange(min=10), default=60.0, show_default=True, help="length of the load")
@click.option("--nodes", type=click.Choice(["3", "5"]), help="of each cluster  [default: 5 every fifth seed, else 3]")
@click.option("--jobs", type=click.IntRange(min=1), help="runs at a time  [default: one a core]")
@click.option("--shrink", type=click.IntRange(min=0), default=60, show_default=True, help="runs to shrink a plan with")
@click.option("--quiet", is_flag=True, help="no line per run")
@click.pass_context
def sim(
    ctx: click.Context,
    seed: int | None,
    seeds: range | None,
    plan_file: Path | None,
    seconds: float,
    nodes: str | None,
    jobs: int | None,
    shrink: int,
    quiet: bool,
) -> None:
    """Simulate clusters under faults: one --seed, a range of --seeds, or a --plan. Exit 1 if a promise was broken, or
    if it was stopped (Ctrl-C, SIGTERM): what is at work comes to its end, then the summary is shown.
    """
    from chaos.simulator.seeds import cores, explain, plans_of, run_seeds, stopping

    if sum(given is not None for given in (seed, seeds, plan_file)) != 1:
        raise click.UsageError("one of --seed, --seeds and --plan is needed")
    if plan_file is not None:
        plans: list[FaultPlan] = [_read(plan_file)]
    else:
        plans = list(plans_of(seeds if seeds is not None else [seed or 0], seconds, int(nodes) if nodes else None))
    failed: list[Run] = []

    def show(run: "Run") -> None:
        if run.broken:
            failed.append(run)
        if not quiet or run.broken:
            click.echo(_line(run))

    with stopping() as stopped:
        tally = run_seeds(plans, min(jobs or cores(), len(plans)), show, stopped)
    for run in failed:
        explain(run, click.echo, shrink_tries=0 if stopped() else shrink, directory=Path())
    if stopped():
        click.echo(f"stopped after {tally.runs} of {len(plans)}")
    for line in tally.lines():
        click.echo(line)
    if failed or stopped():
        ctx.exit(1)


def _read(path: Path) -> "FaultPlan":
    from chaos.fault_plan import FaultPlan, PlanRefused

    try:
        return FaultPlan.parse(path.read_text(encoding="utf-8"), "simulator")
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    except (PlanRefused, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from None


def _line(run: "Run") -> str:
    verdict = "ok" if run.counts else "too little happened"
    if run.broken:
        verdict = f"BROKEN {', '.join(sorted(run.promises))}"
    return (
        f"seed {run.plan.seed:>5}  {run.trace[:12]}  {run.hand_overs:>5} hand-overs  {run.changes:>3} changes of "
        f"leader  {run.fired.total():>3} faults  {run.simulated_s / run.took_s:>5.1f} s/s  {verdict}"
    )
