"""`make reconcile-demo`: a cluster under load, its leader killed twice, then every message accounted for.

Three parties say what became of the messages and do not read each other's notes: the clients (judged by the chaos
checkers), the nodes' own files (judged by `hourwheel reconcile` on Spark, run here as anybody would run it), and the
two held against each other, duplicate by duplicate. The last line is JSON. Exit status 1 if a promise is broken or the
parties differ.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from chaos.bounds import Bounds
from chaos.evidence import Agreement, agreement, write_evidence
from chaos.plan import Plan
from chaos.scenario import kills
from chaos.timeline import Timeline
from chaos.timeline import write as write_timeline
from chaos.trial import Outcome, Trial
from reconcile.read_output import duplicates

#: `hourwheel reconcile` ends so when a promise is broken: the report is there all the same.
BROKEN_STATUS: Final = 6
_BOUNDS: Final = Bounds()


@dataclass(frozen=True)
class Result:
    """The last line: what the ledger counts, then what the checkers count, then what the two differ in."""

    messages: int
    once: int
    more: int
    cancelled: int
    duplicates: int
    lost: int
    unexplained: int
    early: int
    failover: int
    span_ms: int
    retried: int
    late: int
    lateness_p99_ms: int | None
    kills: int
    promises_broken: int
    checkers: dict[str, int]
    ledger: dict[str, int]
    differences: int
    took_s: float
    reconcile_s: float
    report: str

    @property
    def exit_status(self) -> int:
        """1 when a promise is broken or the parties differ."""
        return 1 if self.promises_broken or self.differences else 0


def result(
    document: Mapping[str, Any], agreed: Agreement, outcome: Outcome, kill_count: int, took_s: float, report: Path
) -> Result:
    """The figures of report.json beside the checkers'."""
    classes, causes, flags = document["classes"], document["causes"], document["flags"]
    return Result(
        messages=document["scheduled"],
        once=classes["delivered_once"],
        more=classes["delivered_more"],
        cancelled=classes["cancelled"],
        duplicates=sum(causes.values()),
        lost=classes["lost"],
        unexplained=causes["unexplained"],
        early=flags["early"],
        failover=causes["failover"],
        span_ms=max((change["span_ms"] for change in document["term_changes"]), default=0),
        retried=flags["retried"],
        late=flags["late"],
        lateness_p99_ms=document["figures"]["lateness_ms"]["p99"],
        kills=kill_count,
        promises_broken=len(document["promises_broken"]) + len(outcome.broken),
        checkers=agreed.checkers,
        ledger=agreed.ledger,
        differences=len(agreed.differences),
        took_s=round(took_s, 1),
        reconcile_s=round(document["took_s"], 1),
        report=str(report),
    )


def show(found: Result, agreed: Agreement, outcome: Outcome) -> None:
    """A table, what differs, the path of the report, and the JSON line that ends the output."""
    table = Table("every message", "")
    for name, value in (
        ("scheduled", found.messages),
        ("delivered once", found.once),
        ("delivered more than once", found.more),
        ("cancelled", found.cancelled),
        ("lost", found.lost),
        ("early", found.early),
    ):
        table.add_row(name, f"{value:,}")
    causes = Table("duplicates", "nodes' ledger", "unseen", "unheard", "left", "clients' checkers")
    for cause in sorted({*found.ledger, *found.checkers}) or ["none"]:
        counts = [part.get(cause, 0) for part in (agreed.ledger, agreed.unseen, agreed.unheard)]
        causes.add_row(cause, *map(str, counts), str(counts[0] - sum(counts[1:])), str(found.checkers.get(cause, 0)))
    console = Console()
    console.print(table)
    console.print(causes)
    print(
        "unseen: reached nobody; refused: its receiver did not take it, and the leader that would have heard was dead"
    )
    for line in (*agreed.differences, *outcome.broken):
        print(line)
    print(f"timeline: {Path(found.report).parent.parent / 'timeline.png'}\nreport: {found.report}")
    print(json.dumps(asdict(found)))


async def hurt(directory: Path, plan: Plan, times: int) -> tuple[Trial, Outcome]:
    """A cluster of three in `directory` under `plan`, its leader killed so often; all nodes are stopped afterwards."""
    print(
        f"three nodes in {directory}, {plan.rate:,g} messages a second, the leader killed {times} times ...", flush=True
    )
    async with Trial(directory, plan) as trial:
        await trial.run(kills("leader", times))
        outcome = await trial.judge(_BOUNDS)
    return trial, outcome


def reconcile(directory: Path, trial: Trial, master: str | None) -> dict[str, Any]:
    """Runs the command on the nodes' directories and the clients' files; report.json."""
    evidence = write_evidence(trial.history, directory)
    command = [sys.executable, "-m", "cli", "reconcile", "--out", str(directory / "report")]
    for node_id in trial.cluster.nodes:
        command += ["--data", str(directory / node_id)]
    command += ["--acknowledged", str(evidence.acknowledged), "--receipts", str(evidence.receipts)]
    command += ["--master", master] if master else []
    print("\n$ hourwheel " + " ".join(command[3:]), flush=True)
    done = subprocess.run(command, check=False)
    if done.returncode not in (0, BROKEN_STATUS):
        raise SystemExit(done.returncode)
    document: dict[str, Any] = json.loads((directory / "report" / "report.json").read_bytes())
    return document


def main() -> None:
    """Three nodes under load, the leader killed again and again, and a report that accounts for every message."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dir", type=Path, default=Path("reconcile-data"), help="made anew; kept for looking at")
    parser.add_argument("--rate", type=float, default=1_500, help="messages a second")
    parser.add_argument("--kills", type=int, default=2, help="of the leader, with kill -9")
    parser.add_argument("--strict", action="store_true", help="topics hand over strictly")
    parser.add_argument("--master", help="Spark master (default: all cores of this machine)")
    options = parser.parse_args()
    directory: Path = options.dir
    if directory.exists():
        if any(directory.iterdir()) and not (directory / "n1" / "node.toml").exists():
            parser.error(f"{directory} holds something that is not a demo's")
        shutil.rmtree(directory)
    begun_s = time.monotonic()
    plan = Plan(
        rate=options.rate,
        duration_s=3_600.0,
        batch=15,
        lease_ms=5_000,
        push_share=0.4,
        push_fail_share=0.02,
        cancel_share=0.01,
        strict=options.strict,
    )
    trial, outcome = asyncio.run(hurt(directory, plan, options.kills))
    write_timeline(
        Timeline.of(trial.history, _BOUNDS),
        directory,
        f"Leader killed {options.kills} times, {plan.rate:,g} messages/s",
    )
    document = reconcile(directory, trial, options.master)
    agreed = agreement(trial.history, _BOUNDS, duplicates(directory / "report"))
    took_s = time.monotonic() - begun_s
    found = result(document, agreed, outcome, options.kills, took_s, (directory / "report" / "report.html").absolute())
    show(found, agreed, outcome)
    sys.exit(found.exit_status)


if __name__ == "__main__":
    main()
