"""The demo: its figures come from history and receiver's log, its exit status from what is lost or early, and it runs
for real.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from bench.client.receivers import Received
from bench.demo.demo import pulled, total
from bench.demo.pushed import Part, judge
from chaos.history.event import HandedOver
from chaos.history.history import History
from tests.chaos.history.planted import changed, good

PART_KEYS = [
    "scheduled",
    "delivered",
    "replaced",
    "lost",
    "early",
    "duplicates",
    "duplicate_span_ms",
    "after_lease",
    "lateness_ms",
    "failover_gap_ms",
]
KEYS = [*PART_KEYS[: PART_KEYS.index("lateness_ms")], "pull", "push"]
DUE_MS = 1_800_000_000_000


def delivery(number: int, ms: float, term: int = 1, attempt: int = 1) -> Received:
    """Message `number`, due at DUE_MS + number, received `ms` after its due time."""
    due = datetime.fromtimestamp((DUE_MS + number) / 1000, UTC)
    received_ms = DUE_MS + number + ms
    return Received(received_ms=received_ms, port=1, status=200, id=f"id{number}", term=term, attempt=attempt, due=due)


ACKNOWLEDGED = {f"id{number}": DUE_MS + number for number in range(0, 1_000, 10)}


def log() -> list[Received]:
    """Every message 2 ms late; the leader is killed at 500 ms, the next one pushes from 900 ms on."""
    return [
        delivery(number, 2 if number < 500 else max(2, 900 - number), 1 if number < 500 else 2)
        for number in range(0, 1_000, 10)
    ]


def test_figures_of_a_good_history() -> None:
    """Every key of a part, with the numbers of the history written by hand."""
    found = pulled(History(good()))
    assert list(vars(found)) == PART_KEYS
    assert (found.scheduled, found.delivered, found.replaced, found.lost, found.early) == (400, 399, 1, 0, 0)
    assert (found.duplicates, found.duplicate_span_ms, found.failover_gap_ms) == (3, 20, 502.0)
    assert found.after_lease == 1
    assert set(found.lateness_ms) == {"p50", "p99"}


def test_figures_of_a_good_log() -> None:
    """The same for the pushed half."""
    found = judge(ACKNOWLEDGED, log(), DUE_MS + 500)
    assert list(vars(found)) == PART_KEYS
    assert (found.scheduled, found.delivered, found.lost, found.early, found.duplicates) == (100, 100, 0, 0, 0)
    assert found.failover_gap_ms == 400.0
    assert set(found.lateness_ms) == {"p50", "p99"}


def test_repeats_in_the_log() -> None:
    """Counted, with the span in which the dead leader had delivered them."""
    again = [delivery(480, 430, 2, 2), delivery(490, 420, 2, 2)]
    found = judge(ACKNOWLEDGED, log() + again, DUE_MS + 500)
    assert (found.lost, found.early, found.duplicates, found.duplicate_span_ms) == (0, 0, 2, 10.0)


def test_planted_in_the_log() -> None:
    """One taken out is lost, one before its due time is early; before the acknowledged due time is early too."""
    assert judge(ACKNOWLEDGED, log()[1:], None).lost == 1
    assert judge(ACKNOWLEDGED, [delivery(0, -0.5), *log()[1:]], None).early == 1
    assert judge(ACKNOWLEDGED | {"id0": DUE_MS + 3}, log(), None).early == 1
    stranger = msgspec.structs.replace(delivery(0, 5), id="nobody's")
    assert judge(ACKNOWLEDGED, [*log(), stranger], None).delivered == 100


def part(lost: int = 0, early: int = 0) -> Part:
    """A part in which this went wrong."""
    return Part(10, 10 - lost, 0, lost, early, 1, 5.0, 0, {"p50": 1.0, "p99": 2.0}, None)


@pytest.mark.parametrize("wrong", [part(lost=1), part(early=1)])
def test_lost_or_early_is_exit_status_one(wrong: Part) -> None:
    """In either half."""
    assert total(part(), part()).exit_status == 0
    assert total(part(), wrong).exit_status == 1
    assert total(wrong, part()).exit_status == 1


def test_lost_or_early_in_the_history() -> None:
    """Each of the two is seen by the checkers."""
    lost = changed(lambda event: isinstance(event, HandedOver) and event.number == 7, lambda event: None)
    assert pulled(lost).lost == 1
    early = changed(
        lambda event: isinstance(event, HandedOver) and event.number == 7,
        lambda event: msgspec.structs.replace(event, handed_over_ms=event.due_ms - 1),  # type: ignore[union-attr]
    )
    assert pulled(early).early == 1


@pytest.mark.timeout(150)
def test_short_demo_for_real(tmp_path: Path) -> None:
    """2,000 messages over 4 s with the leader killed at 2 s: plain lines, a table, the JSON line last, exit 0."""
    command = [
        sys.executable,
        "-m",
        "bench.demo",
        "--dir",
        str(tmp_path / "demo"),
        "--count",
        "2000",
        "--seconds",
        "4",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9 n" in done.stdout
    last = json.loads(done.stdout.splitlines()[-1])
    assert list(last) == KEYS
    assert last["scheduled"] > 2_000  # with those of wishes and atomic batches
    for half in (last["pull"], last["push"]):
        assert list(half) == PART_KEYS
        assert (half["lost"], half["early"]) == (0, 0)
        assert half["failover_gap_ms"] > 0
    assert last["pull"]["delivered"] >= 1_000
    assert (last["push"]["scheduled"], last["push"]["delivered"], last["push"]["replaced"]) == (1_000, 1_000, 0)
    assert last["pull"]["duplicate_span_ms"] <= 50
    lines = (tmp_path / "demo" / "receiver.ndjson").read_text().splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == 1_000


def test_foreign_directory_is_not_removed(tmp_path: Path) -> None:
    """A directory that is not a demo's is refused and keeps its files."""
    (tmp_path / "mine").write_text("x")
    command = [sys.executable, "-m", "bench.demo", "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert (tmp_path / "mine").read_text() == "x"
