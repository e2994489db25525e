"""Applies Genesis to the table of members, and applies a change of one member. Only the table decides if a change is
void, which means that it has no effect.

Before the leader proposes a change it checks more: does the node answer, would a majority be there
(node/cluster/member_changes.py). The checks in this file give the same answer on all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from replication.apply.applying import Applying
from replication.command.genesis import Genesis
from replication.command.member import ADD, PROMOTE, ChangeMember
from storage.tables.members import LEARNER, NUMBER_MAX, REMOVED, VOTER, Member, Members, Role

MEMBERS_MAX = 9
"""Bound on voters and learners together. More members make commits slower, and each hello lists all of them."""


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """Result of ChangeMember: the member's new row in the table. For a void change `member` is None and `void` says
    why.
    """

    member: Member | None
    void: str | None = None


def found_members(members: Members, genesis: Genesis, index: int) -> None:
    """Enter the nodes that `genesis` names into the table, all of them as voters. A member's number is its place in
    Genesis, counted from 1.
    """
    addresses = genesis.addresses or (("", ""),) * len(genesis.nodes)
    for node_id, (raft, http) in zip(genesis.nodes, addresses, strict=True):
        member = Member(number=members.next_number, id=node_id, raft=raft, http=http, role=VOTER, since_index=index)
        members.put(member)


def apply_change_member(applying: Applying, command: ChangeMember) -> MemberChanged:
    """Change the store's table of members, and report that it changed. A void change does neither."""
    changed = apply_change(applying.store.catalog.members, command, applying.index)
    if changed.member is not None:
        applying.told.members()
    return changed


def apply_change(members: Members, command: ChangeMember, index: int) -> MemberChanged:
    """Change a table of members by the entry at `index`, unless the change is void."""
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
    """The reason why a node with this id and these addresses cannot become a member by this table. None if it can."""
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
