"""A group's part in snapshots: it sends its own to stranded nodes, and takes one over by being opened again.

```
   stranded ---- fetch, verify (replication/snapshot/fetch.py) ----> whole
      the group is closed: from here on this node promises nothing more
      all that runs is ended in order, the journal's last write is done
      install/journal is written with this node's term, vote and voter flag
      THE rename: before it the old state counts, after it the new
   the group is closed, and opened again on the same directory (node/node.py); the front goes on
   the old state, which the start moved aside by renames, is removed in a thread
```

A node is stranded if the leader's journal no longer has the entries that it needs next.

Why is the group opened again, instead of changing everything in place? Store, machine, journal, wheel and group all
hold what they have read in memory. Opening is the one way to read it anew that is tested at every crash. It takes as
long as the opening of the directory. Raft listens again on the same address; LOCK, node id and store id stay. The front
stays open meanwhile: it sends requests on to the leader, or refuses them if there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from node.runtime.clock import NodeClock
from node.runtime.config import Config
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from replication.group import RaftGroup
from replication.journal.install import Promises, install_journal
from replication.journal.journal import Journal
from replication.snapshot.fetch import SnapshotFetcher
from replication.snapshot.send import SnapshotSender
from replication.wire.frame import Message
from storage.checkpoint.manifest import Manifest
from storage.checkpoint.pin import Pin
from storage.directory.snapshot_install import Install, discard_install, remove_replaced
from storage.file.disk import Disk
from storage.store import Store

log = structlog.get_logger()

_MB = 1 << 20


class Snapshots:
    """Sends and fetches the snapshots of one node's group. `whole` is None until a fetched snapshot is whole. Then the
    group is about to take that over."""

    def __init__(
        self,
        config: Config,
        group: RaftGroup,
        store: Store,
        journal: Journal,
        disk: Disk,
        reserve: Reserve,
        clock: NodeClock,
        life: Lifecycle,
        caught_up: Callable[[], bool],
    ) -> None:
        """`caught_up` returns true once this node has caught up with its leader since its start."""
        storage = config.storage
        self.whole: tuple[Install, Manifest] | None = None
        self._config, self._group, self._store, self._journal, self._disk = config, group, store, journal, disk
        self._life, self._caught_up = life, caught_up
        self.sender = SnapshotSender(
            group,
            self._pin,
            checkpoint_index=lambda: store.checkpoint.applied_index if store.checkpoint else 0,
            monotonic=clock.monotonic,
            spawn=life.spawn,
            rate_bytes_s=storage.snapshot_mb_per_s * _MB,
            hold_bytes=storage.snapshot_journal_mb * _MB,
        )
        self.fetcher = SnapshotFetcher(
            group,
            lambda manifest: Install(config.directory, manifest, disk),
            cluster_id=lambda: store.cluster_id,
            spare_bytes=lambda: reserve.spare_bytes,
            clear=self._clear,
            remove=lambda: remove_replaced(config.directory, disk),
            ready=self._ready,
        )
        group.on_snapshot = self._receive

    def _pin(self) -> Pin | None:
        """Pin the last checkpoint, to be sent. Return None if there is none, or while nodes differ and no majority has
        one state (replication/raft/agreement.py). This node may then be the odd one out, and with its state on a second
        node the wrong state could be a majority.

        If there is no other node to compare with, the checkpoint is pinned. With one of three nodes gone, a follower
        that cannot commit without the snapshot may be the only other node.
        """
        return None if self._group.agreement.split is not None else self._store.pin()

    def start(self) -> None:
        """Begin to send and fetch snapshots, until the node ends."""
        self._life.spawn(self.sender.run())
        self._life.spawn(self.fetcher.run())

    def put_in_place(self) -> None:
        """Make the fetched snapshot the state of this directory. Call it when only the group's files are still open.
        Blocks the calling thread. Raises DiskFailed; the directory then has either the old state or the new one."""
        assert self.whole is not None, "there is no snapshot to take over"
        install, manifest = self.whole
        self._journal.sync_now()
        install_journal(
            install.journal,
            self._disk,
            index=manifest.applied_index,
            term=manifest.applied_term,
            cluster_id=manifest.cluster_id,
            promises=Promises.of(self._journal),
            version=manifest.record.level,
        )
        install.commit()

    def status(self, node_id: str) -> dict[str, Any] | None:
        """Return index, size and progress of the snapshot that the member `node_id` is taking over, as far as this node
        knows. None if this node knows of none."""
        if node_id == self._config.node_id:
            fetcher = self.fetcher
            index, done, total = fetcher.index, fetcher.done_bytes, fetcher.total_bytes
        else:
            sending = self.sender.sendings.get(node_id)
            index, done, total = (sending.index, sending.sent_bytes, sending.bytes) if sending else (0, 0, 0)
        return {"applied_index": index, "bytes": total, "done_bytes": min(done, total)} if index else None

    def values(self) -> dict[str, float]:
        """Return the rows of node.cluster.metrics.TABLE about snapshots, by name."""
        return {
            "hourwheel_snapshots_sending": len(self.sender.sendings),
            "hourwheel_snapshot_sent_bytes": self.sender.sent_bytes,
            "hourwheel_snapshots_given_up": self.sender.given_up,
            "hourwheel_snapshot_lacking_bytes": self.fetcher.total_bytes - self.fetcher.done_bytes,
            "hourwheel_snapshots_refused": self.fetcher.failures,
        }

    def _receive(self, peer: str, message: Message) -> None:
        (self.sender if message["type"] == "snapshot_pull" else self.fetcher).receive(peer, message)

    def _clear(self) -> bool:
        """If this node has caught up without the snapshot of an earlier fetch, remove the files of that fetch. Return
        true if it has caught up. Runs in a thread, while nothing is fetched."""
        if self._caught_up():
            discard_install(self._config.directory, self._disk)
        return self._caught_up()

    def _ready(self, install: Install, manifest: Manifest) -> None:
        """Take over a snapshot that is fetched whole and verified. From this step of the loop on, this node gives no
        vote and acknowledges no entry."""
        log.info("taking over a snapshot", applied_index=manifest.applied_index, bytes=manifest.total_bytes)
        self.whole = (install, manifest)
        self._group.close()
        self._life.stop()
