"""Members of the cluster as they cross the service port, and how their fields are read."""

import re
from typing import Final, Protocol

import msgspec

from api.field import Fault, wrong_type

#: Ids are part of file contents, logs and URLs, so they are plain.
NODE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
#: A hello carries the addresses of all members and has a bound.
ADDRESS_CHARS_MAX: Final = 200
#: An entry says its version in a byte.
LEVEL_MAX: Final = 255


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """A member after a change. `role` is voter, learner (it has no vote before it has caught up) or removed; `index`
    is the log index of the change; `number` names the node in records and is never given again."""

    id: str
    number: int
    raft: str
    http: str
    role: str
    index: int


class MemberPort(Protocol):
    """What the node does to change who its members are; part of `api.port.Port`."""

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


def read_new_id(value: object) -> str:
    """The id of a node to add."""
    if type(value) is not str:
        raise wrong_type('a node\'s id such as "n4"', value)
    if NODE_ID.fullmatch(value) is None:
        raise Fault("invalid-field", "a node's id is 1 to 64 letters, digits, '-', '_' or '.'")
    return value


def read_level(value: object) -> int:
    """A level of the cluster."""
    if type(value) is not int:
        raise wrong_type("a level such as 2", value)
    if not 1 <= value <= LEVEL_MAX:
        raise Fault("invalid-field", f"1 to {LEVEL_MAX} is expected")
    return value


def read_address(value: object) -> str:
    """host:port as other nodes reach it."""
    if type(value) is not str:
        raise wrong_type('host:port such as "10.0.0.4:7500"', value)
    host, colon, port = value.rpartition(":")
    fits = host and colon and port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16
    if not fits or len(value) > ADDRESS_CHARS_MAX or not value.isprintable() or " " in value:
        raise Fault("invalid-field", f"host:port is expected, at most {ADDRESS_CHARS_MAX} characters")
    return value
