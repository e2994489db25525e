"""The part of tests.api.memory_port that is about the cluster and its nodes: three of them, n1 to n3."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from api.port.backup import SnapshotView
from api.port.leadership import DrainView, OpenHandOvers, PushOutcome, TakeoverView, TransferResult
from api.port.member import MemberView
from api.port.port import Principal, Readiness
from api.port.problem import FieldFault, Problem
from tests.api.memory_ledger import MemoryLedger


class MemoryCluster(MemoryLedger):
    """Answers as the node `node_id`; `told` are the outcomes that it was given."""

    def __init__(self, node_id: str) -> None:
        super().__init__()
        self.node_id = node_id
        self.known_leader: str | None = node_id
        self.is_drained = False
        self.told: list[PushOutcome] = []

    def reaches_leader(self) -> bool:
        """It knows no calls between nodes."""
        return False

    async def snapshot(self, directory: str | None) -> SnapshotView:
        """Nothing is written."""
        return SnapshotView(
            node=self.node_id,
            directory=f"/backups/{directory}/1" if directory else "/backups/1",
            cluster_id="00" * 16,
            applied_index=4711,
            applied_term=7,
            bytes=10_000,
            files=4,
            took_ms=12,
        )

    async def add_member(self, node_id: str, raft: str, http: str) -> MemberView:
        """A learner, the fourth; n2 is there already."""
        if node_id == "n2":
            detail = "n2 is a member already"
            raise Problem("invalid-field", detail, errors=[FieldFault("/id", detail)])
        return MemberView(id=node_id, number=4, raft=raft, http=http, role="learner", index=4711)

    async def upgrade(self, level: int | None) -> int:
        """n3 lags."""
        if level is not None and level > 2:
            raise Problem("not-supported-yet", f"level {level} is needed, and n3 reads versions 1 to 2", node="n3")
        return level or 2

    async def remove_member(self, node_id: str) -> MemberView:
        """n1, n2 and n3 are there, and n2 is needed."""
        if node_id not in ("n1", "n2", "n3"):
            raise Problem("unknown-node", f"no member of this cluster is named {node_id}")
        if node_id == "n2":
            raise Problem("quorum-loss", "n2 is needed")
        number = int(node_id[1:])
        address = f"10.0.0.{number}"
        return MemberView(
            id=node_id, number=number, raft=f"{address}:7500", http=f"{address}:7400", role="removed", index=4712
        )

    def drained(self) -> bool:
        """Whether somebody drained it."""
        return self.is_drained

    async def drain(self, node: str | None, *, principal: Principal) -> DrainView:
        """At once."""
        self.is_drained = True
        return DrainView(node=self.node_id, draining=True, led=True, leader="n2", pushes=0)

    async def undrain(self, node: str | None, *, principal: Principal) -> DrainView:
        """At once."""
        self.is_drained = False
        return DrainView(node=self.node_id, draining=False, led=False, leader="n2", pushes=0)

    async def outcomes(self, told: Sequence[PushOutcome], *, principal: Principal) -> Sequence[str]:
        """All are taken, and remembered."""
        self.told += told
        return ["acked" if 200 <= outcome.code < 300 else "nacked" for outcome in told]

    async def takeover(self, told: OpenHandOvers, *, principal: Principal) -> TakeoverView:
        """Nothing was carried over but what is told."""
        count = len(told.positions) // 8
        return TakeoverView(node=self.node_id, term=8, ready_us=1, in_flight_carried=count, repeated=0)

    async def transfer(self, to: str | None, *, principal: Principal) -> TransferResult:
        if to not in (None, "n1", "n2"):
            raise Problem("unknown-node", f"there is no node {to}")
        moved = TransferResult(from_node="n1", to_node=to or "n2", term_before=7, term_after=8, took_ms=12)
        return msgspec.structs.replace(moved, gap_ms=9, in_flight_carried=4, repeated=0)

    async def cluster(self) -> Mapping[str, Any]:
        return {"cluster_id": "c", "leader": self.known_leader, "term": 7, "nodes": []}

    async def ready(self) -> Readiness:
        has_leader = self.known_leader is not None
        return Readiness(has_leader, {"applied": "ok", "leader": "ok" if has_leader else "no leader is known"})

    async def metrics(self) -> bytes:
        return b"hourwheel_up 1\n"
