"""Three that do not read each other's notes say the same of a hurt cluster: clients, the nodes' API, the nodes' files.

The full run, the leader killed 20 times, is `python -m bench.reconcile_demo --kills 20`.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chaos.bounds import Bounds
from chaos.evidence import agreement
from chaos.ledger_client import LedgerClient
from chaos.plan import Plan
from chaos.scenario import kills
from chaos.trial import Outcome, Trial
from reconcile.job import Request, reconcile
from reconcile.read_output import duplicates

COUNTED = ("scheduled", "classes", "flags", "late_causes", "causes", "hand_overs", "retries", "strict_failover")


async def hurt(trial: Trial) -> tuple[dict[str, Any], list[dict[str, Any]], Outcome]:
    """The API's summary and duplicates after a kill, then the verdicts; all nodes are stopped."""
    await trial.run(kills("leader", 1))
    due_ms = [offer.asked_due_ms for offer in trial.history.offered().values()]
    async with LedgerClient(trial.cluster, min(due_ms), max(due_ms) + 60_000) as client:
        summary = await client.settled()
        rows = [row async for row in client.duplicates()]
    return summary, rows, await trial.judge(Bounds())


@pytest.mark.timeout(120)
@pytest.mark.parametrize("strict", [False, True])
def test_checkers_api_and_files_say_the_same(tmp_path: Path, strict: bool) -> None:
    """Every count is the same for API and files; every repeat that clients saw has its cause in both; each failover
    duplicate is of a change of terms that was, within 50 ms, and in strict mode there is none."""
    plan = Plan(rate=300, duration_s=600, lease_ms=5_000, push_share=0.4, push_fail_share=0.02, cancel_share=0.02)

    async def run() -> tuple[Trial, dict[str, Any], list[dict[str, Any]], Outcome]:
        async with Trial(tmp_path, Plan(**vars(plan) | {"strict": strict})) as trial:
            return trial, *await hurt(trial)

    trial, summary, rows, outcome = asyncio.run(run())
    assert not outcome.broken, outcome.describe()
    document = reconcile(None, Request([tmp_path / node_id for node_id in trial.cluster.nodes], tmp_path / "report"))
    assert document["promises_broken"] == []
    assert {name: summary[name] for name in COUNTED} == {name: document[name] for name in COUNTED}
    by_api = agreement(trial.history, Bounds(), rows)
    by_files = agreement(trial.history, Bounds(), duplicates(tmp_path / "report"))
    assert by_api == by_files
    assert by_files.differences == []
    changes = {(change["from_term"], change["to_term"]): change["span_ms"] for change in document["term_changes"]}
    assert set(changes) <= {(1, 2)}
    assert all(span_ms <= 50 for span_ms in changes.values())
    if strict:
        assert document["causes"]["failover"] == 0
