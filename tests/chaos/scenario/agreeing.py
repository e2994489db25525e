"""Three that do not read each other's notes say the same of a hurt cluster: clients, the nodes' API, the nodes' files.

The full run, the leader killed 20 times, is `python -m bench.demo.reconcile --kills 20`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.history.bounds import Bounds
from chaos.history.history import History
from chaos.live.run import LiveRun
from chaos.load.ledger_client import LedgerClient
from chaos.report.evidence import agreement
from reconcile.judge.job import Request, reconcile
from reconcile.output.read_rows import duplicates

COUNTED = ("scheduled", "classes", "flags", "late_causes", "causes", "hand_overs", "retries", "strict_failover")


@dataclass(frozen=True)
class Told:
    """The API's summary of all that a run scheduled, and its duplicates."""

    summary: dict[str, Any]
    duplicates: list[dict[str, Any]]


async def ask(live: LiveRun) -> Told:
    """After the load, while the nodes run."""
    due_ms = [offer.asked_due_ms for offer in live.history.offered().values()]
    async with LedgerClient(live.cluster, min(due_ms), max(due_ms) + 60_000) as client:
        return Told(await client.settled(), [row async for row in client.duplicates()])


def check_agreement(directory: Path, history: History, told: Told, bounds: Bounds) -> dict[str, Any]:
    """Every count is the same for API and files; every repeat that clients saw has its cause in both. Returns what the
    files of the nodes, which are stopped, were found to say."""
    document = reconcile(None, Request([directory / node_id for node_id in ("n1", "n2", "n3")], directory / "report"))
    assert document["promises_broken"] == []
    assert {name: told.summary[name] for name in COUNTED} == {name: document[name] for name in COUNTED}
    by_api = agreement(history, bounds, told.duplicates)
    by_files = agreement(history, bounds, duplicates(directory / "report"))
    assert by_api == by_files
    assert by_files.differences == []
    return document
