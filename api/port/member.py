"""Members of the cluster as they cross the service port."""

from typing import Protocol

import msgspec


class MemberView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member after a change.

    - `role`: voter, learner (no vote before it has caught up) or removed.
    - `index`: the log index of the change.
    - `number`: names the node in records, and is never given again.
    """

    id: str
    number: int
    raft: str
    http: str
    role: str
    index: int


class MemberPort(Protocol):
    """Changes of the members. A part of `api.port.port.Port`."""

    async def add_member(self, node_id: str, raft: str, http: str) -> MemberView:
        """Make a node a learner. It gets its vote when it has caught up. A node that is a member with these addresses
        already is returned as it is.

        Raises `change-in-progress`, `no-leader`, `outcome-unknown`, and `invalid-field` in these cases:
        - the id belongs, or belonged, to a member with other addresses
        - an address is taken, or no node answers there
        - the node holds other data.
        """

    async def remove_member(self, node_id: str) -> MemberView:
        """Take a member out. Raises `unknown-node`, `change-in-progress`, `quorum-loss`, `not-caught-up`,
        `outcome-unknown`.

        If it is this node, leadership first goes to another node, which can remove it then. This call raises
        `no-leader`.
        """

    async def upgrade(self, level: int | None) -> int:
        """Raise the level of the cluster to `level` (None: the newest that this node reads). Return the level of the
        cluster after that. If the cluster has that level already, nothing changes.

        Raises `not-supported-yet`, which names the node that cannot read the level, `no-leader`, `change-in-progress`,
        `outcome-unknown`.
        """
