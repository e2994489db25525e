"""The demo: its figures come from the history, its exit status from what is lost or early, and it runs for real."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.demo import result
from chaos.event import HandedOver
from chaos.history import History
from tests.chaos.planted import changed, good

KEYS = [
    "scheduled",
    "delivered",
    "lost",
    "duplicates",
    "duplicate_span_ms",
    "early",
    "lateness_ms",
    "failover_gap_ms",
]


def test_figures_of_a_good_history() -> None:
    """Every key of the last line, with the numbers of the history written by hand."""
    found = result(History(good()))
    assert list(vars(found)) == KEYS
    assert (found.scheduled, found.delivered, found.lost, found.early) == (400, 399, 0, 0)
    assert (found.duplicates, found.duplicate_span_ms, found.failover_gap_ms) == (4, 20, 502.0)
    assert set(found.lateness_ms) == {"p50", "p99"}
    assert found.exit_status == 0


def test_lost_or_early_is_exit_status_one() -> None:
    """Each of the two alone turns the status."""
    lost = changed(lambda event: isinstance(event, HandedOver) and event.number == 7, lambda event: None)
    assert (result(lost).lost, result(lost).exit_status) == (1, 1)
    early = changed(
        lambda event: isinstance(event, HandedOver) and event.number == 7,
        lambda event: msgspec.structs.replace(event, handed_over_ms=event.due_ms - 1),  # type: ignore[union-attr]
    )
    assert (result(early).early, result(early).exit_status) == (1, 1)


@pytest.mark.timeout(120)
def test_short_demo_for_real(tmp_path: Path) -> None:
    """2,000 messages over 4 s with the leader killed at 2 s: plain lines, a table, the JSON line last, exit 0."""
    command = [sys.executable, "-m", "bench.demo", "--dir", str(tmp_path / "demo"), "--count", "2000", "--seconds", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9 n" in done.stdout
    last = json.loads(done.stdout.splitlines()[-1])
    assert list(last) == KEYS
    assert (last["scheduled"], last["delivered"], last["lost"], last["early"]) == (2_000, 2_000, 0, 0)
    assert last["duplicate_span_ms"] <= 50
    assert last["failover_gap_ms"] > 0


def test_foreign_directory_is_not_removed(tmp_path: Path) -> None:
    """A directory that is not a demo's is refused and keeps its files."""
    (tmp_path / "mine").write_text("x")
    command = [sys.executable, "-m", "bench.demo", "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert (tmp_path / "mine").read_text() == "x"
