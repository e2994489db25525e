"""`python -m bench.run`: one part on real nodes, and names that are none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def run(*args: str) -> "subprocess.CompletedProcess[str]":
    """The command, ended by itself."""
    command = [sys.executable, "-m", "bench.run", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)


@pytest.mark.timeout(150)
def test_quick_parts_for_real(tmp_path: Path) -> None:
    """Scheduling, push and drain, each on a fresh cluster: the last line has every figure, nothing is left behind."""
    done = run("near", "push", "drain", "--quick", "--seconds", "0.5", "--dir", str(tmp_path / "bench"))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    assert [row["figure"].split(",")[0] for row in rows] == [
        "schedule",
        "push to one receiver",
        "push to ten receivers",
        "drain of what is due",
        "elections during the drain",
    ]
    assert all(row["target"] is not None and row["reached"] is not None for row in rows)
    by_figure = {row["figure"].split(",")[0]: row["detail"] for row in rows}
    assert by_figure["push to ten receivers"]["messages"] == 2_000
    assert by_figure["push to ten receivers"]["per receiver"] == "200 to 200"
    assert by_figure["drain of what is due"]["messages"] == 20_000
    assert not (tmp_path / "bench").exists()


def test_unknown_name_is_refused() -> None:
    """With the names there are."""
    done = run("speed")
    assert done.returncode == 2
    assert "lateness-push" in done.stderr
