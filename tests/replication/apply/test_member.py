"""Changes of the members as they are applied: what each does to the table, and when it is void."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.apply.member import MEMBERS_MAX, apply_change, found_members
from replication.command.genesis import Genesis
from replication.command.member import ADD, PROMOTE, REMOVE, ChangeMember
from storage.catalog.catalog import Catalog
from storage.file.disk import Disk
from storage.lmdb.table import Table
from storage.tables.members import LEARNER, REMOVED, VOTER, Members

GENESIS = Genesis(
    b"c" * 16, b"s" * 32, ("n1", "n2", "n3"), 1000, 2000, (("h:11", "h:21"), ("h:12", "h:22"), ("h:13", "h:23"))
)


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    """Those of GENESIS, applied at entry 3."""
    (tmp_path / "catalog").mkdir()
    catalog = Catalog.open(tmp_path / "catalog", Disk())
    found_members(catalog.members, GENESIS, 3)
    yield catalog.members
    catalog.close()


def add(node_id: str, basis: int, port: int = 99) -> ChangeMember:
    """A node at ports of its own."""
    return ChangeMember(ADD, node_id, basis, f"{node_id}:{port}", f"{node_id}:{port + 1}")


def roles(members: Members) -> dict[str, str]:
    """Role by id."""
    return {member.id: member.role for member in members.all()}


def test_genesis_gives_numbers_by_place(members: Members) -> None:
    """From 1, all with a vote."""
    assert [(member.number, member.id, member.raft) for member in members.all()] == [
        (1, "n1", "h:11"),
        (2, "n2", "h:12"),
        (3, "n3", "h:13"),
    ]
    assert set(roles(members).values()) == {VOTER}
    assert members.index == 3


def test_a_node_learns_before_it_votes(members: Members) -> None:
    """Added as a learner, with the next number; the vote is a change of its own."""
    added = apply_change(members, add("n4", 3), 7)
    assert added.member is not None
    assert (added.member.number, added.member.role, members.index) == (4, LEARNER, 7)
    promoted = apply_change(members, ChangeMember(PROMOTE, "n4", 7), 9)
    assert promoted.member is not None
    assert (promoted.member.number, promoted.member.role, members.index) == (4, VOTER, 9)


def test_a_removed_member_keeps_its_number(members: Members) -> None:
    """Its row stays, and the next member gets the next number."""
    apply_change(members, ChangeMember(REMOVE, "n3", 3), 5)
    added = apply_change(members, add("n5", 5), 6)
    assert added.member is not None
    assert added.member.number == 4
    assert roles(members) == {"n1": VOTER, "n2": VOTER, "n3": REMOVED, "n5": LEARNER}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (add("n4", 2), "the members changed at entry 3"),
        (add("n2", 3), "n2 is a member already"),
        (ChangeMember(ADD, "n4", 3, "h:12", "h:99"), "h:12 is an address of n2"),
        (ChangeMember(ADD, "n4", 3, "h:99", "h:12"), "h:12 is an address of n2"),
        (ChangeMember(PROMOTE, "n2", 3), "n2 has a vote already"),
        (ChangeMember(PROMOTE, "n4", 3), "n4 is no member"),
        (ChangeMember(REMOVE, "n4", 3), "n4 is no member"),
    ],
)
def test_what_makes_no_sense_is_void(members: Members, command: ChangeMember, why: str) -> None:
    """And says why; nothing changes."""
    before = members.all()
    changed = apply_change(members, command, 8)
    assert changed.member is None
    assert changed.void is not None
    assert why in changed.void
    assert members.all() == before


def test_an_id_is_not_given_again(members: Members) -> None:
    """A removed node's directory could return and claim to be the new one."""
    apply_change(members, ChangeMember(REMOVE, "n3", 3), 5)
    again = apply_change(members, add("n3", 5), 6)
    assert again.void is not None
    assert "an id is not given again" in again.void


def test_the_last_voter_stays(members: Members) -> None:
    """Also beside a learner."""
    apply_change(members, ChangeMember(REMOVE, "n3", 3), 4)
    apply_change(members, ChangeMember(REMOVE, "n2", 4), 5)
    apply_change(members, add("n4", 5), 6)
    assert apply_change(members, ChangeMember(REMOVE, "n1", 6), 7).void == "n1 is the last voter"


def test_there_are_at_most_so_many_members(members: Members) -> None:
    """Removed ones are not counted."""
    for number in range(4, MEMBERS_MAX + 1):
        assert apply_change(members, add(f"n{number}", members.index), number).member is not None
    assert "the most it can have" in str(apply_change(members, add("more", members.index), 20).void)
    apply_change(members, ChangeMember(REMOVE, "n9", members.index), 21)
    assert apply_change(members, add("more", 21), 22).member is not None


@given(
    st.lists(
        st.tuples(
            st.sampled_from([ADD, PROMOTE, REMOVE]),
            st.sampled_from(["n1", "n2", "n3", "n4", "n5", "n6"]),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_numbers_name_one_member_for_ever(changes: list[tuple[str, str, bool]]) -> None:
    """Whatever is applied: numbers are 1, 2, 3, ...; one that was given stays with its id; there is always a voter;
    neighbouring sets of voters differ by one member at most; a change on an old basis changes nothing."""
    members = Members(Table(b"members", None))  # changes stay in memory
    found_members(members, GENESIS, 3)
    given: dict[int, str] = {member.number: member.id for member in members.all()}
    for index, (what, node_id, current) in enumerate(changes, 4):
        before = {member.id for member in members.all() if member.role == VOTER}
        basis = members.index - (not current)
        changed = apply_change(members, ChangeMember(what, node_id, basis, f"{node_id}:1", f"{node_id}:2"), index)
        after = {member.id for member in members.all() if member.role == VOTER}
        assert after
        assert len(before ^ after) <= 1
        assert current or changed.member is None
        for member in members.all():
            assert given.setdefault(member.number, member.id) == member.id
        assert sorted(given) == list(range(1, len(given) + 1))
