"""Which node is asked next, and what a client learns of its cluster."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourwheel.core.addresses import Address, parse_addresses
from hourwheel.core.nodes import AWAY_S, Nodes

A, B, C, D = parse_addresses("a:1,b:1,c:1,d:1")


def page(leader: str | None = "n3", term: int = 4, cluster: str = "c1", **nodes: str) -> dict[str, Any]:
    """A document of GET /v1/cluster."""
    members = nodes or {"n1": "a:1", "n2": "b:1", "n3": "c:1"}
    rows = [{"id": node_id, "http": http} for node_id, http in members.items()]
    return {"cluster_id": cluster, "leader": leader, "term": term, "nodes": rows}


def test_given_ones_in_their_order_and_what_failed_last() -> None:
    """For a while; the longest ago comes first of those."""
    nodes = Nodes([B, A, C])
    assert nodes.order(0.0) == [B, A, C]
    nodes.failed(B, 1.0)
    nodes.failed(A, 2.0)
    assert nodes.order(2.0) == [C, B, A]
    assert nodes.order(1.0 + AWAY_S) == [B, C, A]
    nodes.failed(C, 3.0)
    assert nodes.order(4.0) == [B, A, C]
    nodes.answered(A)
    assert nodes.order(4.0) == [A, B, C]


def test_the_leader_comes_first_and_members_are_added() -> None:
    """A leader that failed is no exception."""
    nodes = Nodes([A])
    nodes.learn_cluster(page())
    assert (nodes.cluster_id, nodes.leader, nodes.order(0.0)) == ("c1", C, [C, A, B])
    nodes.failed(C, 0.0)
    assert nodes.order(1.0) == [A, B, C]


def test_given_first() -> None:
    """For a client that names its node on purpose; of the learned ones the leader comes first."""
    nodes = Nodes([A], leader_first=False)
    nodes.learn_cluster(page())
    assert nodes.order(0.0) == [A, C, B]


def test_the_newest_term_says_who_leads() -> None:
    """An older page says nothing, and one without a leader takes only an older one away."""
    nodes = Nodes([A])
    nodes.learn_cluster(page())
    assert (nodes.term, nodes.leader) == (4, C)
    nodes.learn_cluster(page(leader="", term=4))
    assert nodes.leader == C
    nodes.learn_cluster(page(leader="", term=5))
    assert nodes.leader is None
    nodes.learn_cluster(page(leader="n2", term=5))
    assert nodes.leader == B
    nodes.learn_cluster(page(leader="n1", term=4, n1="d:1"))
    assert (nodes.leader, nodes.addresses) == (B, (A, B, C))
    nodes.learn_cluster(page(leader="n9", term=6))
    assert nodes.leader is None  # its address is not known yet


def test_a_page_of_another_cluster_or_of_none_is_not_learned() -> None:
    """An address may belong to another cluster by now."""
    nodes = Nodes([A])
    nodes.learn_cluster(page())
    nodes.learn_cluster(page(cluster="c2", term=9, n1="d:1"))
    for nothing in ({}, {"cluster_id": None}, page(term=9) | {"nodes": [{"id": 1}, 7, {"id": "n1", "http": "::"}]}):
        nodes.learn_cluster(nothing)
    assert (nodes.term, nodes.addresses) == (4, (A, B, C))


def test_a_member_that_was_removed_is_asked_no_more() -> None:
    """Unless it was given."""
    nodes = Nodes([A])
    nodes.learn_cluster(page())
    nodes.learn_cluster(page(term=5, n2="b:1", n4="d:1"))
    assert nodes.addresses == (A, B, D)


def test_no_address() -> None:
    """There is nobody to ask."""
    with pytest.raises(ValueError, match="an address"):
        Nodes([])


EVENTS = st.lists(st.tuples(st.sampled_from([A, B, C, D]), st.booleans(), st.floats(0, 5)), max_size=20)


@given(st.permutations([A, B, C, D]), EVENTS, st.booleans())
def test_the_order_by_a_dumb_model(given_ones: list[Address], events: list[Any], leader_first: bool) -> None:
    """Every address once; those that serve as they stand, then those that failed, by when."""
    nodes = Nodes(given_ones, leader_first=leader_first)
    now_s, failed = 0.0, dict[Address, float]()
    for address, serves, step_s in events:
        now_s += step_s
        if serves:
            nodes.answered(address)
            failed.pop(address, None)
        else:
            nodes.failed(address, now_s)
            failed[address] = now_s
        away = [each for each in given_ones if each in failed and now_s < failed[each] + AWAY_S]
        serving = [each for each in given_ones if each not in away]
        found = nodes.order(now_s)
        assert found[: len(serving)] == serving
        assert sorted(failed[each] for each in away) == [failed[each] for each in found[len(serving) :]]
        assert sorted(found, key=str) == [A, B, C, D]
