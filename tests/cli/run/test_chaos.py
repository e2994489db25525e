"""`hourwheel chaos sim`: what it says, and its exit status."""

import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.plan.fault_plan import FaultPlan
from chaos.simulator import seeds
from chaos.simulator.build.mutant import planted
from chaos.simulator.result import Run
from chaos.simulator.run import run_plan
from cli.main import main

PLAN = "plan seed=1 nodes=3 seconds=10\n4 kill leader for=1\n6 full n1 for=1\n"


def run(*arguments: str) -> tuple[int, str]:
    """Exit status and output."""
    result = CliRunner().invoke(main, ["chaos", "sim", *arguments])
    return result.exit_code, result.output


def test_good_plan(tmp_path: Path) -> None:
    """Exit 0; what fired is counted, and a run in which too little happened is said not to count."""
    (tmp_path / "a.plan").write_text(PLAN)
    status, output = run("--plan", str(tmp_path / "a.plan"))
    assert status == 0, output
    assert "kill              1            0" in output
    assert "too little happened in 1: seeds 1" in output


def test_broken_promise_is_explained_and_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1; the plan, the command that replays it, and a smaller plan in a file that replays too."""
    monkeypatch.chdir(tmp_path)
    Path("a.plan").write_text(PLAN)
    with planted("dispatch-state-off-by-one"):
        status, output = run("--plan", "a.plan", "--shrink", "3")
    assert status == 1, output
    assert "seed 1: BROKEN" in output
    assert "names 1 units, 0 of its second were due" in output
    assert "again: hourwheel chaos sim --plan seed-1.plan" in output
    assert Path("seed-1.plan").read_text() == "plan seed=1 nodes=3 seconds=10\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one of --seed, --seeds and --plan is needed"),
        (["--seed", "1", "--seeds", "1:2"], "one of --seed, --seeds and --plan is needed"),
        (["--seeds", "5:5"], "A:B with A below B is expected"),
        (["--seeds", "five"], "A:B with A below B is expected"),
        (["--plan", "/nowhere"], "/nowhere: No such file or directory"),
        (["--seed", "1", "--seconds", "5"], "10"),
    ],
)
def test_wrong_use(arguments: list[str], said: str) -> None:
    """Exit 2, and what is expected instead."""
    status, output = run(*arguments)
    assert status == 2
    assert said in output


def test_wrong_plan_names_its_line(tmp_path: Path) -> None:
    """A plan that cannot be read is a usage error."""
    (tmp_path / "a.plan").write_text("plan seed=1 nodes=3 seconds=10\n4 explode n1 for=1\n")
    status, output = run("--plan", str(tmp_path / "a.plan"))
    assert status == 2
    assert "line 2: kind 'explode'" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_range_counts_what_was_done(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run at work comes to its end; the summary counts it, and the exit status says that not all was done."""
    before = signal.getsignal(number)
    done = run_plan(FaultPlan.parse("plan seed=1 nodes=3 seconds=1\n"))

    def stop(plan: FaultPlan) -> Run:
        for _ in range(2):  # a `make` that is ended passes on what the terminal or `timeout` has sent as well
            os.kill(os.getpid(), number)
        return done

    monkeypatch.setattr(seeds, "run_plan", stop)
    status, output = run("--seeds", "0:1000", "--jobs", "1")
    assert status == 1, output
    assert "stopped after 1 of 1000" in output
    assert "1 runs, 0 of them count" in output
    assert signal.getsignal(number) is before


def test_asked_again_it_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not want to wait for what is at work asks a second time."""
    monkeypatch.setattr(seeds, "SAME_S", -1.0)
    with seeds.stopping() as stopped:
        signal.raise_signal(signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
