"""How Genesis fills the table of members, and how a change of a member is applied, by the table alone.

The leader checks more before it proposes: is the node there, would a quorum stay (node/cluster/member_changes.py). Here
stand the reasons that make a change void on all nodes alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from replication.apply.applying import Applying
from replication.command.genesis import Genesis
from replication.command.member import ADD, PROMOTE, ChangeMember
from storage.tables.members import LEARNER, NUMBER_MAX, REMOVED, VOTER, Member, Members, Role

MEMBERS_MAX = 9
"""Voters and learners together. A majority of more is slower, and a hello carries them all."""


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """Result of ChangeMember: the member's row as it is now, or None and why the change is void."""

    member: Member | None
    void: str | None = None


def found_members(members: Members, genesis: Genesis, index: int) -> None:
    """Enter the first members, all with a vote. A member's number is its place in Genesis, from 1."""
    addresses = genesis.addresses or (("", ""),) * len(genesis.nodes)
    for node_id, (raft, http) in zip(genesis.nodes, addresses, strict=True):
        member = Member(number=members.next_number, id=node_id, raft=raft, http=http, role=VOTER, since_index=index)
        members.put(member)


def apply_change_member(applying: Applying, command: ChangeMember) -> MemberChanged:
    """Apply the change. A void one changes nothing."""
    changed = apply_change(applying.store.catalog.members, command, applying.index)
    if changed.member is not None:
        applying.told.members()
    return changed


def apply_change(members: Members, command: ChangeMember, index: int) -> MemberChanged:
    """Change a table of members."""
    void = _why_void(members, command)
    if void is not None:
        return MemberChanged(None, void)
    member = members.find(command.id)
    if command.what == ADD:
        member = Member(
            number=members.next_number,
            id=command.id,
            raft=command.raft,
            http=command.http,
            role=LEARNER,
            since_index=index,
        )
    else:
        assert member is not None
        role: Role = VOTER if command.what == PROMOTE else REMOVED
        member = member.became(role, index)
    members.put(member)
    return MemberChanged(member)


def _why_void(members: Members, command: ChangeMember) -> str | None:
    if command.basis != members.index:
        return f"the members changed at entry {members.index}, this change was made for those of entry {command.basis}"
    if command.what == ADD:
        return why_not_added(members, command.id, command.raft, command.http)
    member = members.find(command.id)
    if member is None or member.role == REMOVED:
        return f"{command.id} is no member"
    if command.what == PROMOTE:
        return None if member.role == LEARNER else f"{command.id} has a vote already"
    voters = [each.id for each in members.current() if each.role == VOTER]
    return f"{command.id} is the last voter" if voters == [command.id] else None


def why_not_added(members: Members, node_id: str, raft: str, http: str) -> str | None:
    """Why the table does not let a node of this id and these addresses become a member. None if it does."""
    known, current = members.find(node_id), members.current()
    if known is not None and known.role == REMOVED:
        return f"{node_id} was a member until entry {known.since_index}; an id is not given again, choose another"
    if known is not None:
        return f"{node_id} is a member already"
    taken = {address: each.id for each in current for address in (each.raft, each.http)}
    for address in (raft, http):
        if address in taken:
            return f"{address} is an address of {taken[address]}"
    if len(current) >= MEMBERS_MAX:
        return f"the cluster has {len(current)} members, and {MEMBERS_MAX} are the most it can have"
    return "all numbers of members were given" if members.next_number > NUMBER_MAX else None
