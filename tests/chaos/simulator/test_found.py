"""What the simulator has found: each with the plan that shows it."""

import asyncio
import errno
import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.client.caller import Caller
from chaos.client.client import Offer, Placed
from chaos.client.outcome import Outcome
from chaos.client.sender import Sender
from chaos.history.event import Answered
from chaos.history.history import History
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.disk.disk import finds_damage
from chaos.simulator.load.load import Shape
from chaos.simulator.run import Running, run_plan
from chaos.simulator.time.loop import TimeStandsStill
from chaos.simulator.world.environment import SimWriter
from node.cluster.clock_skew import Skew
from node.leader.leader_term import LeaderTerm
from node.runtime.clock import NodeClock
from storage.file.disk import DiskFailed
from storage.format.rows import Corrupt


def test_leader_without_trust_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushes that are refused for lack of trust wait: the pump woke the dispatcher, the dispatcher turned the pump, as
    fast as the processor allowed, for as long as a leader was cut off. A step a millisecond is plenty.
    """
    steps = 0
    step = LeaderTerm._step

    def counted(self: LeaderTerm) -> int | None:
        nonlocal steps
        steps += 1
        return step(self)

    monkeypatch.setattr(LeaderTerm, "_step", counted)
    run = run_plan(FaultPlan.parse("plan seed=1 nodes=3 seconds=10\n5 partition leader|* for=2\n"))
    assert not run.broken
    assert steps < 1_000 * run.simulated_s


def test_simulation_that_fails_is_a_broken_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that stands still ends its own run, not a range of seeds: an hour's count would be gone with it."""

    def fails(self: Running) -> list[str]:
        raise TimeStandsStill("at 3.25 s")

    monkeypatch.setattr(Running, "run", fails)
    run = run_plan(FaultPlan.parse("plan seed=1 nodes=3 seconds=10\n"))
    assert "end" in run.promises
    assert "TimeStandsStill: at 3.25 s" in run.broken[0]


def test_node_that_fails_in_the_middle_of_a_write_waits_for_it() -> None:
    """As the thread is joined: a node that met a flipped bit while a sync was under way ended with "a sync is under
    way" instead (seed 0 of 5d40597: flip leader file=catalog, started again after 3.9 s)."""
    jobs: list[Callable[[], None]] = []
    runs, told = [], []
    loop: Any = SimpleNamespace(dead=False, job=lambda run, tell: jobs.append(run))
    sync: Any = SimpleNamespace(run=lambda: runs.append("ran"))
    writer = SimWriter(loop)
    writer.start(lambda *what: told.append(what))
    writer.put(sync)
    writer.close()
    assert runs == ["ran"]
    jobs[0]()  # the moment drawn for it comes later
    assert runs == ["ran"]
    assert not told


def test_killed_node_finishes_no_write_as_its_coroutines_are_collected() -> None:
    """Seed 20216 of 43ba7c9: a node killed as it closed its journal's writer wrote on, whenever Python collected it."""
    runs: list[str] = []
    loop: Any = SimpleNamespace(dead=False, job=lambda run, tell: None)
    sync: Any = SimpleNamespace(run=lambda: runs.append("ran"))
    writer = SimWriter(loop)
    writer.start(lambda *what: None)
    writer.put(sync)
    loop.dead = True
    writer.close()
    assert not runs


def test_leader_that_ignores_the_others_clocks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.9 s ahead of the median when it is elected: held back to half a second and gone at once; else early."""
    text = "plan seed=3 nodes=3 seconds=16\n6 jump n2 for=10 by=0.9\n6 cut n1-n3 for=8\n8 kill leader for=5\n"
    plan = FaultPlan.parse(text)
    assert not run_plan(plan).broken
    monkeypatch.setattr(NodeClock, "bound", lambda self, median_ms: None)
    monkeypatch.setattr(Skew, "outvoted", lambda self: False)
    assert run_plan(plan).promises == {"W"}


def test_catalog_that_lmdb_finds_damaged_is_damage() -> None:
    """Seed 52 of ce8bf3a: a flipped bit in a page's header is seen by LMDB when it next writes there. The node ends, as
    it is to, and gets an empty disk; that a disk failed was nobody's fault, and the node was started on it again."""
    assert finds_damage(Corrupt("journal/0", 64, "the checksum", 1, 2))
    assert finds_damage(DiskFailed("lmdb commit (mdb_put: MDB_PAGE_FULL)", "catalog", 0))
    assert not finds_damage(DiskFailed("fdatasync", "journal/0", errno.EIO))
    assert not finds_damage(AssertionError())


@pytest.mark.parametrize("seed", [1, 4])
def test_a_move_that_comes_late_does_not_take_a_message_far_away_again(seed: int) -> None:
    """Seed 22079: a client moved a message that was due in an hour, and its request was on its way for a second. The
    load ended meanwhile, and what was far ahead was brought near, to be waited for. The late move won."""
    plan = f"plan seed={seed} nodes=5 seconds=8\n7 loss *-* for=4 share=0.5\n7.5 delay *-* for=3 high=1 low=0.3\n"
    run = run_plan(FaultPlan.parse(plan), Shape(far_share=0.5, move_share=0.9))
    assert not run.broken, "\n".join(run.broken)


def test_a_journal_whose_last_entry_is_damaged_behind_its_checkpoint_is_replaced() -> None:
    """Seed 23259: the bit flipped in an entry that the checkpoint covers, the last one, which a start takes for torn.
    The node refused by name that its journal ends too soon, again and again, and nobody took that for the damage."""
    plan = FaultPlan.parse("plan seed=1 nodes=3 seconds=8\n3.7 flip follower for=0.5 at=0.999 file=journal\n")
    run = run_plan(plan)
    assert not run.broken, "\n".join(run.broken)
    figure = next(verdict.figure for verdict in run.verdicts if verdict.promise == "alive")
    assert figure == {"ended": 1, "unexpected": 0}


@pytest.mark.parametrize("leaps", [0, 1])
def test_54189_a_producer_sends_nothing_again_where_all_clocks_leapt(leaps: int) -> None:
    """They went 21 minutes ahead between two sendings of a message that was acked meanwhile. Its key was older than it
    is kept for, and it was scheduled again, as it should be."""
    clocks = SimpleNamespace(leaps=3)
    sent: list[Sequence[Offer]] = []

    async def schedule(offers: Sequence[Offer]) -> Sequence[Outcome[Placed]]:
        sent.append(offers)
        if len(sent) == 2:
            return [Outcome("ok", Placed("id", 5))]
        clocks.leaps += leaps
        return [Outcome("unknown")]

    async def sleep(seconds: float) -> None:
        assert seconds

    runner: Any = SimpleNamespace(now_s=lambda: 1.0, sleep=sleep)
    client: Any = SimpleNamespace(node="n1", schedule=schedule)
    history = History(now=lambda: (1.0, 2))
    sender = Sender(Caller([client], runner, random.Random(1)), history, 15.0, lambda: clocks.leaps)
    asyncio.run(sender.send([Offer(7, "pull", 5, True)]))
    assert len(sent) == 2 - leaps
    outcome = "unknown" if leaps else "acknowledged"
    assert [(each.number, each.outcome) for each in history.of(Answered)] == [(7, outcome)]
