"""A sender and a fetcher with a wire between them that a test can cut, and real stores at both ends."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from replication.group import RaftGroup
from replication.raft.options import Peer
from replication.snapshot.fetch import SnapshotFetcher
from replication.snapshot.send import SnapshotSender
from replication.wire.frame import Message
from storage.checkpoint.manifest import Manifest
from storage.directory.data_directory import DataDirectory
from storage.directory.snapshot_install import Install, discard_install
from storage.file.disk import Disk
from storage.store import Store
from tests.storage.workload import H, append, checkpoint, found, replay, settle, topic, turn
from tests.virtual_time import virtually

TERM = 3
WORKLOAD = [found, turn(0), append(5_000, 1_000, 9 * H), topic("orders"), settle(1, (0, 0), (9, 0)), append(5_500)]


def checkpointed(directory: Path) -> Store:
    """An open store with a durable checkpoint of three hours."""
    DataDirectory.open(directory, "n1", Disk(), bytes(16)).close()
    store = Store.open(directory, disk=Disk())
    replay(store, WORKLOAD, ())
    checkpoint(store, store.applied_index)
    return store


class JournalEnd:
    """As much of a journal as the sender asks for."""

    def __init__(self) -> None:
        self.behind = 0

    def bytes_from(self, index: int) -> int:
        return self.behind


class End:
    """One end of the wire, in the place of a RaftGroup."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_leader = name == "leader"
        self.term = TERM
        self.leader_id: str | None = "leader"
        self.installable = True
        self.together = False  # whether its offers say that it sends small files together
        self.journal = JournalEnd()
        self.peers = {"follower": Peer("follower", connected=True, stranded=True)}
        self.sent: list[Message] = []
        self.passes: Callable[[Message], Message | None] = lambda message: message
        self.other: Callable[[str, Message], None] = lambda peer, message: None

    def send_snapshot(self, peer: str, message: Message) -> bool:
        """To the other end, soon, unless `passes` gives None."""
        if message["type"] == "snapshot_offer":
            message = message | {"together": self.together}
        passed = self.passes(message)
        self.sent.append(message)
        if passed is not None:
            asyncio.get_running_loop().call_soon(self.other, self.name, passed)
        return True

    def may_install(self, leader: str, term: int, index: int) -> bool:
        """As told."""
        return self.installable and term == self.term

    def count(self, kind: str) -> int:
        """Messages of this kind that were sent."""
        return sum(message["type"] == kind for message in self.sent)


class Pair:
    """A leader with a store below `directory`/leader, a follower with an empty directory beside it."""

    def __init__(
        self, directory: Path, *, rate_bytes_s: int = 1 << 40, hold_bytes: int = 1 << 30, together: bool = False
    ) -> None:
        self.leader, self.follower = End("leader"), End("follower")
        self.leader.together = together
        self.store = checkpointed(directory / "leader")
        self.directory = directory / "follower"
        DataDirectory.open(self.directory, "n2", Disk(), bytes(16)).close()
        self.cluster_id: bytes | None = None
        self.spare_bytes = 1 << 40
        self.whole: asyncio.Future[tuple[Install, Manifest]] = asyncio.get_running_loop().create_future()
        self.tasks: list[asyncio.Task[None]] = []
        self.to_remove = 3
        assert self.store.checkpoint is not None
        self.index = self.store.checkpoint.applied_index
        self.sender = SnapshotSender(
            cast(RaftGroup, self.leader),
            self.store.pin,
            checkpoint_index=lambda: self.index,
            monotonic=asyncio.get_running_loop().time,
            spawn=self.spawn,
            rate_bytes_s=rate_bytes_s,
            hold_bytes=hold_bytes,
        )
        self.fetcher = SnapshotFetcher(
            cast(RaftGroup, self.follower),
            lambda manifest: Install(self.directory, manifest, Disk()),
            cluster_id=lambda: self.cluster_id,
            spare_bytes=lambda: self.spare_bytes,
            clear=self.clear,
            remove=self.remove,
            ready=lambda install, manifest: self.whole.set_result((install, manifest)),
        )
        self.leader.other, self.follower.other = self.fetcher.receive, self.sender.receive

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside the test; a failure shows when the pair is closed."""
        self.tasks.append(asyncio.ensure_future(work))

    def clear(self) -> bool:
        """Nothing needs what is aside."""
        discard_install(self.directory, Disk())
        return True

    def remove(self) -> bool:
        """A piece of what was replaced."""
        self.to_remove -= self.to_remove > 0
        return self.to_remove > 0

    def run(self) -> None:
        """Both ends are at work."""
        self.spawn(self.sender.run())
        self.spawn(self.fetcher.run())

    async def close(self) -> None:
        """End both; raises what one failed with."""
        for task in self.tasks:
            task.cancel()
        ended = await asyncio.gather(*self.tasks, return_exceptions=True)
        self.store.close()
        for result in ended:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    @property
    def sending(self) -> Any:
        """What the leader sends now."""
        return self.sender.sendings.get("follower")


def played(directory: Path, scene: Callable[[Pair], Coroutine[Any, Any, None]], **options: Any) -> None:
    """A pair at work, the scene, the end of both; on virtual time."""

    async def whole() -> None:
        pair = Pair(directory, **options)
        pair.run()
        try:
            await scene(pair)
        finally:
            await pair.close()

    virtually(whole)
