"""The language of plans: what is written is read back, what is drawn covers every fault, what is wrong is named."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.plan.draw import FIRST_S, LAST_S, draw_plan, drawn_kinds
from chaos.plan.fault_plan import Fault, FaultPlan, Party, PlanRefused
from tests.examples import examples

CRASH = "crash n1 for=1 operation=3 files=any"


@examples(100)
@given(st.integers(0, 2**31), st.integers(10, 600), st.sampled_from([3, 5]))
def test_drawn_plans_survive_their_text(seed: int, seconds: int, nodes: int) -> None:
    """Parsing what was rendered gives the same plan, for any plan the generator draws."""
    plan = draw_plan(seed, float(seconds), nodes)
    assert FaultPlan.parse(plan.render()) == plan


def test_every_kind_comes_within_as_many_seeds_as_there_are_kinds() -> None:
    """No fault is left to chance: a run of that many seeds, from any first one, has them all."""
    kinds = drawn_kinds()
    for first in (0, 1, 17):
        seen = {fault.kind for seed in range(first, first + len(kinds)) for fault in draw_plan(seed, 60).faults}
        assert seen == set(kinds)


def test_simulated_kinds_are_what_seeds_draw_from() -> None:
    """A kind more, or another order, would give every seed another plan: those of old reports would not replay."""
    assert drawn_kinds() == [
        *("kill", "power", "crash", "pause", "stop", "wipe", "flip", "partition", "cut", "loss", "delay", "duplicate"),
        *("jump", "drift", "slow", "fail", "full", "transfer", "times", "stranger", "version"),
    ]


@pytest.mark.parametrize(("party", "kind"), [("simulator", "bandwidth *-* for=1 kbit=1000"), ("live", CRASH)])
def test_kind_of_the_other_party_is_refused(party: Party, kind: str) -> None:
    """What a party cannot do it says before it begins; the language itself knows it."""
    text = f"plan seed=1 nodes=3 seconds=20\n4 {kind}\n"
    assert FaultPlan.parse(FaultPlan.parse(text).render()) == FaultPlan.parse(text)
    with pytest.raises(PlanRefused, match=f"line 2: kind '{kind.split()[0]}'; there are kill"):
        FaultPlan.parse(text, party)


def test_every_fifth_seed_has_five_nodes() -> None:
    """Majorities of three are another thing than of two; they cost more, so they come more rarely."""
    assert [draw_plan(seed, 20).nodes for seed in range(5)] == [3, 3, 3, 3, 5]
    assert draw_plan(3, 20, 5).nodes == 5


def test_faults_begin_when_there_is_load() -> None:
    """None before the cluster has a leader, none so late that nothing is under load after it."""
    for seed in range(50):
        moments = [fault.at_s for fault in draw_plan(seed, 60).faults]
        assert moments == sorted(moments)
        assert moments[0] >= FIRST_S
        assert moments[-1] <= 60 - LAST_S


def test_plan_is_a_function_of_its_seed_whatever_the_hash_seed() -> None:
    """Two interpreters with different hash seeds draw the same text."""
    program = "from chaos.plan.draw import draw_plan; print(draw_plan(7, 60).render())"
    texts = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": value}, check=True, capture_output=True, text=True
        ).stdout
        for value in ("1", "2")
    }
    assert texts == {draw_plan(7, 60).render() + "\n"}


def test_people_may_write_a_plan() -> None:
    """Comments and empty lines are skipped, lines are put in order."""
    plan = FaultPlan.parse(
        """
        plan seed=3 nodes=3 seconds=20   # as short as it goes
        # first the network
        9.5 cut n1>leader for=2
        4 kill leader for=0.5
        """
    )
    assert [fault.kind for fault in plan.faults] == ["kill", "cut"]
    assert plan.faults[0] == Fault(4.0, "kill", "leader", 0.5)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("4 explode n1 for=1", "kind 'explode'; there are kill, power"),
        ("4 kill n1", "a moment, a kind, a target and for=seconds are needed"),
        ("4 kill n1>n2 for=1", "kill hits a node, found 'n1>n2'"),
        ("4 cut n1 for=1", "cut hits a link, found 'n1'"),
        ("-4 kill n1 for=1", "seconds with up to three digits"),
        ("4 kill n1 for=soon", "for is a number, found 'soon'"),
        ("4 loss *-* for=1 share=2", "share is 0 to 1, found 2"),
        ("4 loss *-* for=1", "loss takes for, share; found for"),
        ("4 power n1 for=1 unsynced=kept", "unsynced is one of lost, torn; found 'kept'"),
        ("4 kill n1 for=1 for=2", "for is given twice"),
        ("4 kill n1 for=1 now", "name=value is expected, found 'now'"),
    ],
)
def test_wrong_line_is_named(line: str, said: str) -> None:
    """Each refusal has the number of the line, what was found and what is allowed."""
    with pytest.raises(PlanRefused, match="line 2: ") as refused:
        FaultPlan.parse(f"plan seed=1 nodes=3 seconds=20\n{line}\n")
    assert said in str(refused.value)


def test_plan_without_its_head_is_refused() -> None:
    """The seed draws all else of the run: a plan without it would not replay."""
    for text in ("", "4 kill n1 for=1\n", "plan seed=1 nodes=3\n"):
        with pytest.raises(PlanRefused, match="seed"):
            FaultPlan.parse(text)


@pytest.mark.parametrize("name", ["crowd", "older", "skew", "backup"])
def test_what_faults_are_put_on_is_part_of_a_plan(name: str) -> None:
    """So that the plan of a seed that failed with them replays it; real processes have none."""
    text = f"plan seed=1 nodes=3 seconds=10 {name}=2\n"
    assert getattr(FaultPlan.parse(text), name) == 2
    assert FaultPlan.parse(text).render() == text
    with pytest.raises(PlanRefused, match=f"{name} is the simulator's"):
        FaultPlan.parse(text, "live")


def test_no_more_nodes_begin_as_older_builds_than_there_are() -> None:
    """The bound is named."""
    with pytest.raises(PlanRefused, match="older is 0 to 3, found 4"):
        FaultPlan.parse("plan seed=1 nodes=3 seconds=10 older=4\n")


def test_an_upgrade_changes_each_older_node() -> None:
    """One after the other, whoever goes back in between comes again; some seeds go back, some begin with a part."""
    plans = [plan for seed in range(200) if (plan := draw_plan(seed, 60)).older]
    assert 20 <= len(plans) <= 80
    assert {plan.older < plan.nodes for plan in plans} == {True, False}
    for plan in plans:
        changed = {fault.target for fault in plan.faults if fault.kind == "version" and fault.word("to") == "newer"}
        assert changed >= {f"n{number}" for number in range(1, plan.older + 1)}


IN_TURN = """plan seed=1 nodes=3 seconds=3600
  0.000 slow       followers  for=3600.000 by=0.200
 +1.500 jump       follower   for=+3.000 by=60.000
 &0.500 pause      leader     for=3.000
 +1.500 kill       last       for=+1.500
"""


def test_faults_may_wait_for_calm() -> None:
    """They keep their order, behind those with moments, and survive their text."""
    plan = FaultPlan.parse(IN_TURN, "live")
    assert plan.render() == IN_TURN
    assert [(fault.begins, fault.at_s, fault.kind, fault.ends) for fault in plan.in_turn] == [
        ("+", 1.5, "jump", "+"),
        ("&", 0.5, "pause", ""),
        ("+", 1.5, "kill", "+"),
    ]
    late = IN_TURN + "9.000 kill *  for=1\n"
    assert FaultPlan.parse(late, "live").in_turn == plan.in_turn


@pytest.mark.parametrize(
    ("line", "party", "why"),
    [
        ("&1 kill n1 for=1", "live", "none before it"),
        ("+1 kill n1 for=1", "simulator", "goes by the clock"),
        ("1 kill n1 for=+1", "simulator", "goes by the clock"),
        ("-1 kill n1 for=1", "live", "line 2: seconds"),
        ("+1 kill n1 for=+x", "live", "line 2: for is a number"),
    ],
)
def test_waiting_that_cannot_be_is_refused(line: str, party: Party, why: str) -> None:
    """Beside nothing, in the simulator, or not in the language."""
    with pytest.raises(PlanRefused, match=why):
        FaultPlan.parse(f"plan seed=1 nodes=3 seconds=20\n{line}\n", party)


@pytest.mark.parametrize("name", ["seed", "nodes"])
def test_what_is_counted_is_whole(name: str) -> None:
    """`nodes=2.9` was two nodes, and a large seed another one."""
    given = {"seed": "1", "nodes": "3", "seconds": "5"} | {name: "2.9"}
    with pytest.raises(PlanRefused, match=rf"line 1: {name} is a whole number, found 2\.9"):
        FaultPlan.parse("plan " + " ".join(f"{each}={text}" for each, text in given.items()))
    assert FaultPlan.parse(f"plan seed={2**62 + 1} nodes=3 seconds=5").seed == 2**62 + 1
