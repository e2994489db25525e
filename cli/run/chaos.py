"""`hourwheel chaos`: clusters broken on purpose, and judged.

`sim`: whole clusters in one process on virtual time, under faults drawn by seed. The same seed gives the same plan and
the same trace on any machine. A run that breaks a promise prints its plan, the command that replays it, and a smaller
plan that breaks it too.

`run`: a cluster of real processes under load, with every kind of fault that this machine can carry out. A seed gives
the plan only: two runs of one plan differ, as real processes do.
"""

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.failure import Failure
from cli.time_option import Span
from node.runtime.exit_code import ExitCode

if TYPE_CHECKING:
    from chaos.plan.fault_plan import FaultPlan, Party
    from chaos.simulator.result import Run


#: A shorter run leaves no room for faults.
SECONDS_MIN = 10
_ROOT = Path(__file__).parents[2]


class _Seeds(click.ParamType[range]):
    """The type of an option A:B: the seeds from A to B - 1."""

    name = "A:B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Return the range, which is not empty."""
        if isinstance(value, range):
            return value
        first, colon, end = str(value).partition(":")
        if not colon or not first.isdecimal() or not end.isdecimal() or int(first) >= int(end):
            self.fail(f"A:B with A below B is expected (seeds A to B-1), found {value!r}", param, ctx)
        return range(int(first), int(end))


@click.group()
def command() -> None:
    """Break a cluster on purpose, and see what its promises are worth."""
    if not (_ROOT / "chaos").is_dir():
        raise Failure(ExitCode.USAGE, "chaos is not in the wheel: run this in a checkout of Hourwheel")
    if str(_ROOT) not in sys.path:
        sys.path.append(str(_ROOT))  # `pip install --editable` puts the wheel's packages there alone


@command.command()
@click.option("--seed", type=click.IntRange(min=0), help="this one seed")
@click.option("--seeds", type=_Seeds(), help="seeds A to B-1")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="a plan of faults written before")
@click.option("--seconds", type=Span(least_s=SECONDS_MIN), default="60s", show_default=True, help="length of the load")
@click.option("--nodes", type=click.Choice(["3", "5"]), help="of each cluster  [default: 5 every fifth seed, else 3]")
@click.option("--jobs", type=click.IntRange(min=1), help="runs at a time  [default: one a core]")
@click.option("--shrink", type=click.IntRange(min=0), default=60, show_default=True, help="runs to shrink a plan with")
@click.option("--crowd", is_flag=True, help="beside messages in thousands of hours, and hours as of a million")
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
    crowd: bool,
    quiet: bool,
) -> None:
    """Simulate clusters under faults: one --seed, a range of --seeds, or a --plan. Exit 1 if a promise was broken, or
    if it was stopped (Ctrl-C, SIGTERM). The runs at work then come to their end, and the summary is shown."""
    from chaos.simulator.seeds import cores, explain, plans_of, run_seeds, stopping

    if sum(given is not None for given in (seed, seeds, plan_file)) != 1:
        raise click.UsageError("one of --seed, --seeds and --plan is needed")
    if plan_file is not None:
        plans: list[FaultPlan] = [_read(plan_file, "simulator")]
    else:
        plans = list(plans_of(seeds if seeds is not None else [seed or 0], seconds, int(nodes) if nodes else None))
    if crowd:
        from chaos.plan.draw import CROWD_WEIGHT

        plans = [replace(plan, crowd=CROWD_WEIGHT) for plan in plans]
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


@command.command()
@click.option("--seed", type=click.IntRange(min=0), help="draw a plan of all faults from this seed")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="a plan of faults written before")
@click.option(
    "--duration",
    type=Span(least_s=SECONDS_MIN),
    default="5m",
    show_default=True,
    help="with --seed: length of the load",
)
@click.option("--nodes", type=click.Choice(["3", "5"]), default="3", show_default=True, help="with --seed")
@click.option("--kinds", default="", metavar="KIND,..", help="with --seed: only these kinds of faults  [default: all]")
@click.option("--rate", type=click.FloatRange(min=1), default=2_200.0, show_default=True, help="messages a second")
@click.option("--strict", is_flag=True, help="topics are strict")
@click.option("--hostile", is_flag=True, help="single clients attack beside the load (`hourwheel chaos hostile`)")
@click.option("--out", type=click.Path(path_type=Path), default="chaos-run", show_default=True, help="made anew")
@click.pass_context
def run(
    ctx: click.Context,
    seed: int | None,
    plan_file: Path | None,
    duration: float,
    nodes: str,
    kinds: str,
    rate: float,
    strict: bool,
    hostile: bool,
    out: Path,
) -> None:
    """Run a cluster of real processes under load and faults: --seed or --plan. Verdicts, a timeline, all that clients
    saw and the nodes' directories stay in --out (docs/chaos.md). Exit 1 if a promise was broken.

    As root, each node has a network namespace and a disk of its own. Faults that this machine cannot carry out are
    reported as not run.
    """
    from chaos.cluster.cluster import ClusterFailed
    from chaos.live.command import run_plan
    from chaos.plan.draw_live import draw_plan
    from chaos.plan.fault_plan import kinds_of

    if (seed is None) == (plan_file is None):
        raise click.UsageError("one of --seed and --plan is needed")
    chosen = [kind for kind in kinds.split(",") if kind]
    if unknown := [kind for kind in chosen if kind not in kinds_of("live")]:
        raise click.UsageError(f"--kinds: {unknown[0]!r} is none; there are {', '.join(kinds_of('live'))}")
    plan = draw_plan(seed or 0, duration, int(nodes), chosen) if plan_file is None else _read(plan_file, "live")
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise Failure(ExitCode.CONFLICT, f"--out: {out} exists; a run is not put over another one") from None
    except OSError as error:
        raise Failure(ExitCode.USAGE, f"--out: {out}: {error.strerror}") from None
    try:
        held = run_plan(plan, out.resolve(), rate, strict, hostile, click.echo)
    except ClusterFailed as failed:
        raise Failure(ExitCode.FAILED, f"the cluster did not come back: {failed}") from None
    click.echo(f"verdict, timeline, history and the nodes' directories are in {out}")
    if not held:
        ctx.exit(int(ExitCode.FAILED))


def _read(path: Path, party: "Party") -> "FaultPlan":
    from chaos.plan.fault_plan import FaultPlan, PlanRefused

    try:
        return FaultPlan.parse(path.read_text(encoding="utf-8"), party)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    except (PlanRefused, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from None


def _line(run: "Run") -> str:
    from chaos.history.promises import PROMISES

    verdict = "ok" if run.counts else "too little happened"
    if run.broken:
        verdict = f"BROKEN: {', '.join(PROMISES[each].short for each in sorted(run.promises))}"
    return (
        f"seed {run.plan.seed:>5}  {run.trace[:12]}  {run.hand_overs:>5} deliveries  {run.changes:>3} changes of "
        f"leader  {run.fired.total():>3} faults  {run.simulated_s / run.took_s:>5.1f} s/s  {verdict}"
    )


@command.command()
@click.argument("names", nargs=-1)
@click.option("--seconds", type=Span(least_s=3), default="20s", show_default=True, help="length of each attack")
@click.option("--directory", type=click.Path(path_type=Path), help="for the clusters  [default: a temporary one]")
@click.pass_context
def hostile(ctx: click.Context, names: tuple[str, ...], seconds: float, directory: Path | None) -> None:
    """Attacks by single clients against three real nodes, each beside clients that behave (default: all). Exit 1 if
    these notice one."""
    from chaos.hostile.attacks import ATTACKS
    from chaos.hostile.run import run

    unknown = set(names) - ATTACKS.keys()
    if unknown:
        raise click.UsageError(f"no attack is named {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    with tempfile.TemporaryDirectory() as temporary:
        found = asyncio.run(run(directory or Path(temporary), names or tuple(ATTACKS), seconds, click.echo))
    if any(verdict.wrong or verdict.slow for verdict in found.values()):
        ctx.exit(int(ExitCode.FAILED))
