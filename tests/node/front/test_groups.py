"""What a front knows of its groups: which one is asked, and what was told of it."""

from typing import Any

import pytest

from api.port.problem import Problem
from node.front.groups import GroupDirectory
from node.port.group_port import GroupStatus, ReceiptKey
from storage.format.message_id import encode_id


class _Port:
    """One that tells what it is told to."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told: Any = None

    def attach(self, told: Any) -> None:
        """See GroupPort."""
        self.told = told


def directory(*numbers: int) -> tuple[GroupDirectory, list[Any], list[int]]:
    """With these groups attached; their ports, and how often ways changed."""
    changes = [0]

    def changed() -> None:
        changes[0] += 1

    groups = GroupDirectory("n1", numbers, changed)
    ports: list[Any] = [_Port(number) for number in numbers]
    for port in ports:
        groups.attach(port)
    return groups, ports, changes


def test_a_message_is_asked_of_the_group_that_its_id_names() -> None:
    """What names none that is here is the first's to refuse."""
    groups, ports, _ = directory(0, 3)
    groups.numbers["orders"] = 3
    for id, number in ((encode_id(3, 1, 2), 3), (encode_id(0, 1, 2), 0), (encode_id(9, 1, 2), 0), ("no id", 0)):
        assert groups.of_message(id).number == number
    assert [groups.of_topic(name).number for name in ("orders", "others", None)] == [3, 0, 0]
    assert groups.of_topic("orders").port is ports[1]


def test_ways_change_only_where_requests_may_go_another() -> None:
    """A clock that moves is no such change; the newest status counts all the same."""
    groups, (port,), changes = directory(0)
    heard: list[GroupStatus] = []
    groups.home.listen(heard.append)
    for status, ways in (
        (GroupStatus(group=0, node="n1", term=1, leads=True, leader_http="a:1"), 1),
        (GroupStatus(group=0, node="n1", term=1, leads=True, leader_http="a:1", ahead_s=2.0), 1),
        (GroupStatus(group=0, node="n1", term=1, leader_http="a:1", ahead_s=2.0), 2),
        (GroupStatus(group=0, node="n1", term=2, leader_http="b:1", ahead_s=2.0), 3),
    ):
        port.told(status)
        assert (groups.home.status, changes[0], heard[-1]) == (status, ways, status)


def test_a_group_that_is_gone_leads_nothing_here_and_its_leader_is_known_on() -> None:
    """Requests go on to that one; what only the group could answer is refused."""
    groups, (port,), _ = directory(0)
    port.told(GroupStatus(group=0, node="n1", term=4, leads=True, leader="n2", leader_http="b:1"))
    groups.detach(0)
    assert (groups.home.status.leads, groups.home.status.leader_http) == (False, "b:1")
    with pytest.raises(Problem, match="no-leader: group 0 of this node is being opened"):
        _ = groups.home.port
    groups.attach(port)
    told = port.told
    assert groups.home.port is port
    told(GroupStatus(group=0, node="n1", term=4))
    assert groups.home.status.leader_http == "b:1", "it has heard of no leader yet"
    told(GroupStatus(group=0, node="n1", term=5, leader="n3", leader_http="c:1"))
    told(GroupStatus(group=0, node="n1", term=5))
    assert groups.home.status.leader_http is None


def test_a_group_that_is_gone_says_nothing_any_more() -> None:
    """It learns that it leads nothing while it closes; its leader is taken for the same all the same."""
    groups, (port,), changes = directory(0)
    told = port.told
    told(GroupStatus(group=0, node="n1", term=4, leads=True, leader="n1", leader_http="a:1"))
    groups.detach(0)
    before = changes[0]
    for leader in ("n2", None, None):
        told(GroupStatus(group=0, node="n1", term=5, leader=leader))
    assert (groups.home.status.leader_http, changes[0]) == ("a:1", before)


def test_receipts_are_of_the_key_that_the_group_told() -> None:
    """Nobody makes one before the cluster is founded; the second form comes with the level."""
    groups, (port,), _ = directory(3)
    with pytest.raises(Problem, match="not founded yet"):
        _ = groups.home.receipts
    port.told(GroupStatus(group=3, node="n1", receipts=ReceiptKey(b"s" * 32, whole=False)))
    first = groups.home.receipts
    port.told(GroupStatus(group=3, node="n1", term=5, receipts=ReceiptKey(b"s" * 32, whole=False)))
    assert groups.home.receipts is first
    port.told(GroupStatus(group=3, node="n1", receipts=ReceiptKey(b"s" * 32, whole=True)))
    assert groups.home.receipts is not first
