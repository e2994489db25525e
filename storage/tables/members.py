"""The members of the cluster, as the log has made them. Each has a row, and a number that is given once and for all.

Records hold the number (`node u16` of settle records, the delivery log), so it must name the same node for as long as a
record lives. Numbers count up, and the row of a removed member stays, with its id. So history can still be shown, and
the id is not given again. A node that was removed while it was down learns that from the row when it returns. If its id
were used again, an old directory and a new one could both claim to be the member.
"""

import struct
from typing import Final, Literal

import msgspec

from storage.lmdb.table import Table

Role = Literal["voter", "learner", "removed"]
VOTER: Final = "voter"
LEARNER: Final = "learner"
REMOVED: Final = "removed"

NUMBER_MAX: Final = (1 << 16) - 1
_KEY: Final = struct.Struct(">H")
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member, or a former one. `raft` and `http` are host:port as other nodes reach it.

    `since_index` is the log index of the change that gave it this role.
    """

    number: int
    id: str
    raft: str
    http: str
    role: Role
    since_index: int

    def became(self, role: Role, index: int) -> "Member":
        """The same member in another role, since the change at `index`."""
        return msgspec.structs.replace(self, role=role, since_index=index)


_DECODER: Final = msgspec.msgpack.Decoder(Member)


class Members:
    """All members that ever were, in memory, and their table. Numbers start at 1. 0 is no member."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._by_id: dict[str, Member] = {}

    def load(self) -> None:
        """Read all rows. Raises Corrupt if a checksum does not match."""
        for _, value in self._table.rows():
            self._remember(_DECODER.decode(value))

    def all(self) -> list[Member]:
        """All members, removed ones too, in the order of their numbers."""
        return sorted(self._by_id.values(), key=lambda member: member.number)

    def current(self) -> list[Member]:
        """All voters and learners, in the order of their numbers."""
        return [member for member in self.all() if member.role != REMOVED]

    def find(self, node_id: str) -> Member | None:
        """The member of this id, removed or not. None if there never was one."""
        return self._by_id.get(node_id)

    @property
    def next_number(self) -> int:
        """The number of the next new member."""
        return max((member.number for member in self._by_id.values()), default=0) + 1

    @property
    def index(self) -> int:
        """Log index of the newest change of members, 0 before the first. It tells which of two lists of members is
        newer."""
        return max((member.since_index for member in self._by_id.values()), default=0)

    def put(self, member: Member) -> None:
        """Set a member's row. A number keeps its id for ever, and an id its number."""
        former = self._by_id.get(member.id)
        assert member.number == (former.number if former else self.next_number), member
        assert member.number <= NUMBER_MAX, member
        self._table.put(_KEY.pack(member.number), _ENCODER.encode(member))
        self._remember(member)

    def _remember(self, member: Member) -> None:
        self._by_id[member.id] = member
