"""Members of the cluster as they cross the service port."""

from typing import Protocol

import msgspec


class MemberView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member after a change. `role` is voter, learner (it has no vote before it has caught up) or removed; `index`
    is the log index of the change; `number` names the node in records and is never given again."""

    id: str
    number: int
    raft: str
    http: str
    role: str
    index: int


class MemberPort(Protocol):
    """Changes of the members. A part of `api.port.port.Port`."""

    async def add_member(self, node_id: str, raft: str, http: str) -> MemberView:
        """Make a node a learner; it gets its vote when it has caught up. A member with these addresses is answered as
        it is. `invalid-field` (the id is a member's with others, or was one's, an
        address is taken or nobody answers there, it holds other data), `change-in-progress`, `no-leader`,
        `outcome-unknown`."""

    async def remove_member(self, node_id: str) -> MemberView:
        """Take a member out. `unknown-node`, `change-in-progress`, `quorum-loss`, `not-caught-up`, `outcome-unknown`;
        `no-leader` also when it is this node, after leadership went to another one, which then can."""

    async def upgrade(self, level: int | None) -> int:
        """Raise the level of the cluster to this one, None: the newest that this node reads; the level as it is then.
        Once it is reached nothing happens. `not-supported-yet` names the node that does not read it; `no-leader`,
        `change-in-progress`, `outcome-unknown`."""
