"""`make reconcile-demo`: a cluster under load, its leader killed twice, then every message accounted for.

Three sources have an account of the messages, each without the others:
- the clients, judged by the chaos checkers
- the running nodes (`GET /v1/ledger`)
- the nodes' files (`hourwheel reconcile` on Spark, run as a user would).

The demo compares them, count by count and duplicate by duplicate. The last line is JSON. Exit status 1 if a promise is
broken or they differ.
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

from chaos.history.history import History
from chaos.live.result import otherwise
from chaos.live.run import PLAIN, LiveRun
from chaos.load.ledger_client import LedgerClient
from chaos.plan.load_plan import Plan
from chaos.report.evidence import Agreement, agreement, write_evidence
from chaos.report.timeline import Timeline
from chaos.report.write_timeline import write as write_timeline
from chaos.scenario.plans import kills
from chaos.scenario.plans import plan as plan_of
from reconcile.output.read_rows import duplicates

#: Exit status of `hourwheel reconcile` when a promise is broken. The report is there all the same.
BROKEN_STATUS: Final = 6
_BOUNDS: Final = PLAIN.bounds
#: Counts that must be equal in the API and the files.
_COUNTED: Final = ("scheduled", "classes", "flags", "late_causes", "causes", "hand_overs", "retries")
_BY_RECEIPTS: Final = "not_received"
#: Time after the last due time, for leases that have to end first.
_MORE_MS: Final = 60_000


@dataclass(frozen=True)
class Result:
    """The last line of the output. It has the figures of the nodes' files, the duplicates by cause from each of the
    three sources, and the number of differences."""

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
    files: dict[str, int]
    api: dict[str, int]
    checkers: dict[str, int]
    differences: int
    took_s: float
    reconcile_s: float
    report: str

    @property
    def exit_status(self) -> int:
        """1 if a promise is broken or the three sources differ, otherwise 0."""
        return 1 if self.promises_broken or self.differences else 0


@dataclass(frozen=True)
class KilledCluster:
    """A cluster after its kills, its nodes stopped.

    - `history`: the clients' history.
    - `asked`: the ledger by the API, before the stop.
    - `rows`: the duplicates of that ledger.
    - `broken`: broken promises, and faults that did not come, as lines.
    """

    nodes: list[str]
    history: History
    broken: list[str]
    asked: dict[str, Any]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Compared:
    """The agreement of the files' ledger with the checkers, that of the API's ledger with the checkers, and all
    differences as lines."""

    files: Agreement
    api: Agreement
    differences: list[str]


def compare(hurt: KilledCluster, document: Mapping[str, Any], out: Path) -> Compared:
    """Compare the ledger of the files (report.json and the tables in `out`), that of the API, and the checkers."""
    history = hurt.history
    files = agreement(history, _BOUNDS, duplicates(out))
    api = agreement(history, _BOUNDS, hurt.rows)
    counts = []
    for name in _COUNTED:
        asked, found = hurt.asked[name], document[name]
        if name == "flags":  # the files were given receipts, the nodes have none
            asked, found = ({**flags, _BY_RECEIPTS: 0} for flags in (asked, found))
        if asked != found:
            counts.append(f"{name}: {asked} by the API, {found} by the files")
    said = [f"files: {line}" for line in files.differences] + [f"API: {line}" for line in api.differences]
    return Compared(files, api, counts + said)


def result(
    document: Mapping[str, Any], compared: Compared, broken: list[str], kill_count: int, took_s: float, report: Path
) -> Result:
    """Return the last line: the figures of report.json, and duplicates by cause from all three sources."""
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
        promises_broken=len(document["promises_broken"]) + len(broken),
        files=compared.files.ledger,
        api=compared.api.ledger,
        checkers=compared.files.checkers,
        differences=len(compared.differences),
        took_s=round(took_s, 1),
        reconcile_s=round(document["took_s"], 1),
        report=str(report),
    )


def show(found: Result, compared: Compared, broken: list[str]) -> None:
    """Print a table, the differences, the path of the report, and the JSON line that ends the output."""
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
    agreed = compared.files
    causes = Table("duplicates", "files", "API", "unseen", "unheard", "left", "checkers")
    for cause in sorted({*found.files, *found.api, *found.checkers}) or ["none"]:
        parts = (agreed.ledger, compared.api.ledger, agreed.unseen, agreed.unheard)
        files, api, unseen, unheard = (part.get(cause, 0) for part in parts)
        left = files - unseen - unheard
        causes.add_row(cause, *map(str, (files, api, unseen, unheard, left, found.checkers.get(cause, 0))))
    console = Console()
    console.print(table)
    console.print(causes)
    print("unseen: the earlier one reached nobody; unheard: it had failed, and no leader was left to hear it")
    for line in (*compared.differences, *broken):
        print(line)
    print(f"timeline: {Path(found.report).parent.parent / 'timeline.png'}\nreport: {found.report}")
    print(json.dumps(asdict(found)))


async def hurt(directory: Path, plan: Plan, times: int) -> KilledCluster:
    """Run a cluster of three in `directory` under `plan`, and kill its leader `times` times. Then read its ledger and
    stop all nodes."""
    print(
        f"three nodes in {directory}, {plan.rate:,g} messages a second, the leader killed {times} times ...", flush=True
    )
    faults = plan_of(kills(times, "leader"))
    async with LiveRun(faults, plan, directory) as live:
        await live.run()
        due_ms = [offer.asked_due_ms for offer in live.history.offered().values()]
        async with LedgerClient(live.cluster, min(due_ms), max(due_ms) + _MORE_MS) as client:
            asked = await client.settled()
            rows = [row async for row in client.duplicates()]
        judged = await live.judge()
        broken = judged.broken + otherwise(faults, judged)
        return KilledCluster(list(live.cluster.nodes), judged.history, broken, asked, rows)


def reconcile(directory: Path, hurt: KilledCluster, master: str | None) -> dict[str, Any]:
    """Run the command on the nodes' directories and the clients' files. Return report.json."""
    evidence = write_evidence(hurt.history, directory)
    command = [sys.executable, "-m", "cli", "reconcile", "--out", str(directory / "report")]
    for node_id in hurt.nodes:
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
    """Run three nodes under load, kill the leader again and again, and report on every message."""
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
        batch=15,
        lease_ms=5_000,
        push_share=0.4,
        push_fail_share=0.02,
        cancel_share=0.01,
        strict=options.strict,
    )
    hurt_cluster = asyncio.run(hurt(directory, plan, options.kills))
    history = hurt_cluster.history
    title = f"Leader killed {options.kills} times, {plan.rate:,g} messages a second"
    write_timeline(Timeline.of(history, _BOUNDS), directory, title)
    document = reconcile(directory, hurt_cluster, options.master)
    compared = compare(hurt_cluster, document, directory / "report")
    took_s = time.monotonic() - begun_s
    page = (directory / "report" / "report.html").absolute()
    found = result(document, compared, hurt_cluster.broken, options.kills, took_s, page)
    show(found, compared, hurt_cluster.broken)
    sys.exit(found.exit_status)


if __name__ == "__main__":
    main()
