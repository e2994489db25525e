"""`hourwheel chaos run` as an operator calls it: a minute of faults on real processes, with load."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.history.history import History
from chaos.live.faults.loop_disk import missing
from chaos.plan.fault_plan import FaultPlan

#: Each family of faults once, the leader's most; heavier and longer ones are `make chaos`.
PLAN = """
plan seed=11 nodes=3 seconds=54
  4.0 kill       leader   for=1
  9.0 partition  leader|* for=3
 15.0 pause      leader   for=2
 20.0 power      *        for=0.5 unsynced=lost
 26.0 flip       follower for=0.5 at=0.4 file=hours
 31.0 fail       leader   for=2 errno=EIO operation=sync
 36.0 transfer   follower for=0.1
 39.0 jump       leader   for=4 by=0.4
 40.0 slow       follower for=3 by=0.3
 46.0 full       leader   for=2
 50.0 loss       *-*      for=2 share=0.05
"""


def chaos_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: its mounts and namespaces end with it."""
    command = [sys.executable, "-m", "cli", "chaos", "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.timeout(400)
def test_a_minute_of_everything(tmp_path: Path) -> None:
    """No promise is broken; every fault was put on or is named as not run with its reason; what the run leaves behind
    says the same, and nothing of it stays in the system.
    """
    plan, out = tmp_path / "a.plan", tmp_path / "out"
    plan.write_text(PLAN)
    done = chaos_run("--plan", str(plan), "--rate", "150", "--out", str(out))
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-3_000:]
    verdict = json.loads((out / "verdict.json").read_text())
    assert verdict["violations"] == 0
    figures = {each["promise"]: each["figure"] for each in verdict["verdicts"]}
    assert figures["operations"]["begun"] + figures["many_moves"]["begun"] > 5
    assert figures["keys"]["replaced"] > 10
    assert figures["whole_batches"]["written"] > 20
    planned = {fault.kind for fault in FaultPlan.parse(PLAN).faults}
    shown = set(verdict["fired"])
    unshown = {line.partition(":")[0] for line in verdict["not_shown"] if "not in the plan" not in line}
    assert shown | unshown >= planned
    if not missing():
        assert "power" in shown
    assert verdict["per_second"]["handed_over"] > 100
    assert len(History.read(out / "history.ndjson").events) > 25_000
    assert {"verdict.txt", "plan.txt", "timeline.txt", "timeline.json"} <= {path.name for path in out.iterdir()}
    assert (out / "n1" / "data" / "LOCK").exists()
    assert not list(out.glob("*/disk.img"))
    assert str(out) not in Path("/proc/mounts").read_text()
    again = chaos_run("--plan", str(plan), "--out", str(out))
    assert (again.returncode, "exists" in again.stderr) == (6, True)


def test_wrong_calls_are_refused(tmp_path: Path) -> None:
    """Neither seed nor plan, both, a plan that is none, a kind that is none, a length without room: each says what."""
    (tmp_path / "bad.plan").write_text("plan seed=1 nodes=3 seconds=30\n 4 crash leader for=1 operation=1 files=any\n")
    wrong = {
        (): "one of --seed and --plan",
        ("--seed", "1", "--plan", "a"): "one of --seed and --plan",
        ("--plan", str(tmp_path / "none")): "No such file",
        ("--plan", str(tmp_path / "bad.plan")): "line 2: kind 'crash'",
        ("--seed", "1", "--kinds", "kill,fire"): "'fire' is none",
        ("--seed", "1", "--duration", "5s"): "at least 10s",
    }
    for arguments, said in wrong.items():
        done = chaos_run(*arguments, "--out", str(tmp_path / "out"))
        assert done.returncode == 2, arguments
        assert re.search(said, " ".join(done.stderr.split())), done.stderr
        assert not (tmp_path / "out").exists()
