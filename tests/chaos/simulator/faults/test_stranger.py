"""Strangers at the Raft ports of simulated nodes: they come, are heard of, and move nothing."""

from __future__ import annotations

import pytest

from chaos.history.event import Intruded
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.result import Run
from chaos.simulator.run import Running, run_plan
from replication.wire.door import GUEST_KINDS, UNHEARD_KINDS

ALL_QUIET = """plan seed=1 nodes=3 seconds=14
3 stranger * for=8 knows=nothing
3 stranger * for=8 knows=nodes
3 stranger * for=8 knows=cluster
"""
ONE_AWAY = """plan seed=1 nodes=3 seconds=16
3 stranger * for=10 knows=nodes
3 stranger * for=3 knows=cluster
6 kill n3 for=5
7 stranger * for=3 knows=cluster
"""


def figure(run: Run) -> dict[str, object]:
    """The figures of the promise `door`: how often nodes heard strangers, by what those know."""
    return next(dict(verdict.figure) for verdict in run.verdicts if verdict.promise == "door")


def test_strangers_of_every_kind_end_no_term() -> None:
    """While nothing else happens: hundreds of connections, and the first leader leads to the end."""
    run = run_plan(FaultPlan.parse(ALL_QUIET))
    assert not run.broken, "\n".join(run.broken)
    assert run.fired["stranger"] == 3
    assert run.changes == 0
    assert {"heard_of_nothing", "heard_of_nodes", "heard_of_cluster"} <= figure(run).keys()


def test_a_guest_is_heard_and_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the name of a member that is away: its frames arrive, right ones of many kinds. Who knows the cluster id keeps
    away meanwhile, for it could be that member."""
    heard: set[str] = set()
    judged = Running.run

    def run_and_look(self: Running) -> list[str]:
        wrong = judged(self)
        heard.update(event.what for event in self.history.of(Intruded) if event.knows == "nodes")
        return wrong

    monkeypatch.setattr(Running, "run", run_and_look)
    run = run_plan(FaultPlan.parse(ONE_AWAY))
    assert not run.broken, "\n".join(run.broken)
    assert (run.fired["stranger"], run.passed["stranger"]) == (2, 1)
    assert heard & GUEST_KINDS
    assert heard & UNHEARD_KINDS
