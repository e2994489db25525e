"""The reconciliation's demo: its last line is of report, API and checkers, and says what they differ in.

That all of it works together on real nodes is held by tests/chaos/scenario/test_kill.py.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.demo.reconcile import KilledCluster, compare, result, show
from chaos.history.history import History
from ledger.summary import Summary
from tests.chaos.history.planted import good
from tests.chaos.report.test_evidence import rows


def document(**more: Any) -> dict[str, Any]:
    """What report.json says of the good history."""
    found = Summary().document() | {"scheduled": 400, "hand_overs": 403, "retries": 0}
    found["classes"] |= {"delivered_once": 395, "delivered_more": 4, "cancelled": 1}
    found["causes"] |= {"failover": 3, "lease_ended": 1}
    found["term_changes"] = [{"from_term": 1, "to_term": 2, "duplicates": 3, "span_ms": 20}]
    found |= {"promises_broken": [], "took_s": 1.25, "figures": {"lateness_ms": {"p99": 7}}}
    return found | more


def hurt(asked: dict[str, Any], by_api: list[dict[str, Any]]) -> KilledCluster:
    """A cluster that saw the good history and said this of itself."""
    return KilledCluster(["n1", "n2", "n3"], History(good()), [], asked, by_api)


def output(directory: Path, ledger: list[dict[str, Any]]) -> Path:
    """An output of the reconciliation with these duplicates."""
    (directory / "duplicates").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(ledger), directory / "duplicates" / "1.parquet")
    return directory


def test_three_that_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0, no difference, and a last line with every figure that was promised."""
    compared = compare(hurt(document(), rows()), document(), output(tmp_path / "report", rows()))
    found = result(document(), compared, [], 1, 20.0, tmp_path / "report" / "report.html")
    show(found, compared, [])
    assert compared.differences == []
    assert found.exit_status == 0
    lines = capsys.readouterr().out.splitlines()
    last = json.loads(lines[-1])
    assert (last["messages"], last["once"], last["duplicates"]) == (400, 395, 4)
    assert (last["lost"], last["unexplained"], last["early"], last["span_ms"]) == (0, 0, 0, 20)
    assert last["files"] == last["api"] == last["checkers"] == {"failover": 3, "lease_ended": 1}
    assert any(line.startswith("report: ") and line.endswith("report.html") for line in lines)


def test_every_difference_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A count of the API that is another, a duplicate that only one has: each is said, and the status is 1."""
    asked = document(hand_overs=404)
    compared = compare(hurt(asked, rows()[1:]), document(), output(tmp_path / "report", [*rows()[:3]]))
    found = result(document(), compared, [], 1, 20.0, tmp_path / "report" / "report.html")
    show(found, compared, [])
    said = capsys.readouterr().out
    assert "hand_overs: 404 by the API, 403 by the files" in said
    assert "files: id50 in term 2, attempt 2: after_lease by the checkers, no duplicate by the ledger" in said
    assert "API: id95 in term 2, attempt 2: failover by the checkers, no duplicate by the ledger" in said
    assert (found.differences, found.exit_status) == (3, 1)


def test_what_only_receipts_tell_is_no_difference(tmp_path: Path) -> None:
    """The files are held against receipts, the nodes are not: `not_received` is theirs alone, and no other flag."""
    flags = document()["flags"]
    out = output(tmp_path / "report", rows())
    assert compare(hurt(document(), rows()), document(flags=flags | {"not_received": 1}), out).differences == []
    assert len(compare(hurt(document(), rows()), document(flags=flags | {"late": 1}), out).differences) == 1


def test_broken_promise_is_status_1(tmp_path: Path) -> None:
    """By the report or by the checkers."""
    broken = document(promises_broken=["1 messages lost"])
    compared = compare(hurt(document(), rows()), document(), output(tmp_path / "report", rows()))
    assert result(broken, compared, [], 1, 20.0, tmp_path).exit_status == 1
    assert result(document(), compared, ["H: the nodes' files differ"], 1, 20.0, tmp_path).exit_status == 1


def test_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """The demo's directory is made anew, unless it holds what no demo wrote."""
    (tmp_path / "letter.txt").write_text("keep me", encoding="utf-8")
    command = [sys.executable, "-m", "bench.demo.reconcile", "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "holds something that is not a demo's" in done.stderr
    assert (tmp_path / "letter.txt").read_text(encoding="utf-8") == "keep me"
