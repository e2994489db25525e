"""What a node says of itself when it cannot serve."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from node.server import Node
from node.status import Status


def node_with(**changes: Any) -> Node:
    """A follower that knows its leader and has caught up; `changes` replace parts."""
    parts: dict[str, Any] = {
        "group": SimpleNamespace(leader_id="n2", applied_index=7, known_commit=9),
        "store": SimpleNamespace(cluster_id=bytes(16)),
        "config": SimpleNamespace(node_id="n1", peers=(SimpleNamespace(id="n1"), SimpleNamespace(id="n2"))),
        "transport": SimpleNamespace(refusals={}),
        "draining": False,
        "reign": None,
        "caught_up": lambda: True,
    }
    return cast(Node, SimpleNamespace(**parts | changes))


def test_a_node_that_serves_is_ready() -> None:
    """Every check is ok; a stranger that was refused once does not count."""
    stranger = SimpleNamespace(refusals={"127.0.0.1": SimpleNamespace(detail="not a member")})
    ready = Status(node_with(transport=stranger)).ready()
    assert ready.ready
    assert set(ready.checks.values()) == {"ok"}


def test_a_node_that_lags_says_by_how_much() -> None:
    """The entries it has and those it knows of."""
    ready = Status(node_with(caught_up=lambda: False)).ready()
    assert not ready.ready
    assert ready.checks["caught_up"] == "applied 7 of 9 entries"


def test_a_node_that_nobody_talks_to_says_why() -> None:
    """With the directory of another cluster a node finds no leader: the reason of its peers is the one that helps."""
    refusal = SimpleNamespace(detail="n1 belongs to cluster aa, n2 to bb")
    lonely = node_with(
        group=SimpleNamespace(leader_id=None, applied_index=7, known_commit=7),
        transport=SimpleNamespace(refusals={"n2": refusal}),
        caught_up=lambda: False,
    )
    checks = Status(lonely).ready().checks
    assert checks["leader"] == "no leader is known; n1 belongs to cluster aa, n2 to bb"
    assert checks["caught_up"] == "no leader was heard since the start"
