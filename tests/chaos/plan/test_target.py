"""Targets of plans: who is meant, and which links lie between them."""

import pytest

from chaos.plan.target import FaultTarget

IDS = ["n1", "n2", "n3", "n4", "n5"]


def fault_target(leader: str | None = "n3") -> FaultTarget:
    """At five nodes."""
    return FaultTarget(lambda: IDS, lambda: leader)


@pytest.mark.parametrize(
    ("target", "nodes"),
    [("n2", ["n2"]), ("leader", ["n3"]), ("follower", ["n1"]), ("last", ["n5"]), ("*", IDS), ("n9", [])],
)
def test_nodes_of_a_target(target: str, nodes: list[str]) -> None:
    """An id, a role, or everybody; nobody for an id that is not there."""
    assert fault_target().nodes(target) == nodes


def test_followers_are_all_but_who_leads() -> None:
    """And none where nobody follows."""
    assert fault_target().nodes("followers") == ["n1", "n2", "n4", "n5"]
    assert fault_target().named("leader|followers") == "n3|n1,n2,n4,n5"
    alone = FaultTarget(lambda: ["n1"], lambda: "n1")
    assert [alone.nodes(target) for target in ("followers", "last")] == [[], []]


def test_leader_is_whoever_led_last() -> None:
    """While nobody leads a plan still hits somebody."""
    said: list[str | None] = ["n2", None]
    aimed = FaultTarget(lambda: IDS, lambda: said.pop(0))
    assert [aimed.nodes("leader"), aimed.nodes("leader")] == [["n2"], ["n2"]]
    assert fault_target(None).nodes("leader") == ["n1"]
    assert FaultTarget(lambda: ["n1"], lambda: "n1").nodes("follower") == []


@pytest.mark.parametrize(
    ("target", "links"),
    [
        ("n1>n2", [("n1", "n2")]),
        ("leader-n1", [("n1", "n3"), ("n3", "n1")]),
        ("n1>*", [("n1", name) for name in IDS[1:]]),
        ("n1>n1", []),
        ("n1-n9", []),
    ],
)
def test_links_of_a_target(target: str, links: list[tuple[str, str]]) -> None:
    """One way or both; a node has none with itself."""
    assert fault_target().links(target) == links


def test_everybody_with_everybody() -> None:
    """All ways, each once."""
    assert len(fault_target().links("*-*")) == len(set(fault_target().links("*-*"))) == 20


def test_groups_are_apart_both_ways() -> None:
    """`*` is everybody else; who is in no group keeps hearing all: a bridge between two halves."""
    alone = fault_target().apart("leader|*")
    assert len(alone) == 8
    assert all("n3" in link for link in alone)
    bridge = fault_target().apart("n1,n2|n4,n5")
    assert len(bridge) == 8
    assert not any("n3" in link for link in bridge)


def test_roles_of_a_target_by_name() -> None:
    """The history says who was hit, not as what."""
    assert [fault_target().named(target) for target in ("leader>*", "follower|*", "n1,leader|n2")] == [
        "n3>*",
        "n1|*",
        "n1,n3|n2",
    ]
