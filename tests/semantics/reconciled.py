"""The export of a running cluster and what its receivers got, through one Spark job."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from click.testing import CliRunner

from cli.main import main
from node.runtime.exit_code import ExitCode
from reconcile.output.read_rows import duplicates
from storage.export.manifest import read_export
from storage.file.disk import Disk
from tests.semantics.real_nodes import RealNodes
from tests.waiting import until

LIMITS: Final = ("--late", "1m", "--grace", "1s", "--lost-after", "1s")
"""No message is late for the load of this machine. What is due for a second and was never handed over is lost."""


@dataclass(frozen=True)
class Report:
    """What the job found: report.json, the ledger's rows by id, and the causes of each message's duplicates."""

    document: dict[str, Any]
    rows: dict[str, dict[str, Any]]
    causes: dict[str, list[str]]

    def of_topic(self, topic: str) -> list[dict[str, Any]]:
        """The rows of a topic's messages."""
        return [row for row in self.rows.values() if row["topic"] == topic]


async def export(nodes: RealNodes, to: Path) -> None:
    """Ship what all nodes have, while they run, until the export has all that they have applied by now."""
    applied = await nodes.cluster.wait_level()
    data = [f"--data={node.data_path}" for node in nodes.cluster.nodes.values()]

    async def shipped() -> bool:
        done = await asyncio.to_thread(CliRunner().invoke, main, ["export", "--to", str(to), *data])
        if done.exit_code:
            return False  # a node that has made no checkpoint yet
        exported, _ = read_export(to, Disk())
        return all(word.applied_index >= applied for word in exported.values())

    await until(shipped)


def reconcile(exported: Path, received: list[dict[str, Any]], acknowledged: list[str], out: Path) -> Report:
    """Run the command once, as a user would."""
    receipts, ids = out.with_name("receipts.ndjson"), out.with_name("acknowledged.ndjson")
    receipts.write_text("".join(json.dumps(row) + "\n" for row in received), encoding="utf-8")
    ids.write_text("".join(json.dumps({"id": id}) + "\n" for id in acknowledged), encoding="utf-8")
    command = [sys.executable, "-m", "cli", "reconcile", "--data", str(exported), "--out", str(out)]
    command += ["--receipts", str(receipts), "--acknowledged", str(ids), *LIMITS]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    # If a promise is broken, the cells say which.
    assert done.returncode in (ExitCode.OK, ExitCode.CONFLICT), done.stdout + done.stderr
    rows = [row for path in sorted((out / "ledger").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    causes = defaultdict(list)
    for row in duplicates(out):
        causes[row["id"]].append(row["cause"])
    return Report(json.loads((out / "report.json").read_bytes()), {row["id"]: row for row in rows}, dict(causes))
