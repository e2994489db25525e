"""The follower's side of a snapshot: it fetches what the leader offers, piece by piece, into a directory beside its
own.

The follower asks for the pieces at its own speed, and a crash on one side leaves nothing to clean up on the other. Only
the disk says how far it came. Every pull has the checksum of the bytes that this node already has of a piece. They come
from an earlier try, another leader's snapshot, or the node's own hours. If they are right, the leader sends only the
rest of the piece. So going on after a crash, or with another leader, is the same as beginning.

The node's own data stays untouched until the whole snapshot is there, synced and read back
(storage/directory/snapshot_install.py). An error before that ends this try with a line in the log, and the leader
offers again. Such an error is a piece that stays damaged, another cluster's manifest, or too little space.

At the end `ready` is called on the loop, and ends the group. The node puts the new data in place by one rename and
opens the group again (node/upkeep/snapshot.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import google_crc32c

from replication.group import RaftGroup
from replication.snapshot.in_thread import in_thread_behind
from replication.wire.frame import Message
from replication.wire.frame_bound import FILES_MAX, PIECE_BYTES_MAX
from storage.checkpoint.manifest import Manifest, Part, Place, SnapshotRefused, parts_of
from storage.directory.snapshot_install import Install, PieceRefused
from storage.format.rows import Corrupt, FormatRefused

ANSWER_S = 2.0
"""A pull that is not answered is sent again after this time."""
PATIENCE = 8
"""A pull is sent this many times. Then the leader counts as gone, and this node waits for another offer."""
DAMAGED_MAX = 3
"""How often one piece may come damaged."""
AGAIN_S = 2.0
AGAIN_MAX_S = 60.0
"""After a refused snapshot this node ignores offers: for AGAIN_S the first time, then twice as long each time, and for
AGAIN_MAX_S at most."""

CLEAR_S = 10.0
"""While nothing is fetched, `clear` is called again after this time until it returns True."""

log = logging.getLogger("hourwheel.snapshot")


class Gone(Exception):
    """The offer is no longer valid. Its leader has a newer snapshot, does not answer, or does not lead any more."""


class SnapshotFetcher:
    """Fetches the snapshots that the leader offers, one at a time. A newer offer replaces an older one. `run` works
    until it is cancelled. Its caller gives it these functions:

    - `build(manifest)` opens the directory in which the snapshot is built, with the files of an earlier try. Runs in a
      thread.
    - `cluster_id()` returns the id of this node's cluster, None while it has none.
    - `spare_bytes()` returns how much may be written before the reserve of free space is touched.
    - `clear()` removes the files of an earlier try if they are not needed any more. It returns True if it need not be
      called again. Runs in a thread while nothing is fetched.
    - `remove()` removes a part of the data that earlier snapshots replaced. It returns True if there is more. Runs in a
      thread before anything is fetched.
    - `ready(install, manifest)` ends the group. The node then takes the whole snapshot over.
    """

    def __init__(
        self,
        group: RaftGroup,
        build: Callable[[Manifest], Install],
        *,
        cluster_id: Callable[[], bytes | None],
        spare_bytes: Callable[[], int],
        clear: Callable[[], bool],
        remove: Callable[[], bool],
        ready: Callable[[Install, Manifest], None],
    ) -> None:
        self.index = 0
        """The index of the last entry in the snapshot that is being fetched; 0 if there is none."""
        self.done_bytes = self.total_bytes = 0
        """Bytes of the snapshot that is being fetched: those that are here and right, and all."""
        self.failures = 0
        """The number of snapshots that this node refused since the start."""
        self._group = group
        self._build = build
        self._cluster_id = cluster_id
        self._spare_bytes = spare_bytes
        self._clear = clear
        self._remove = remove
        self._ready = ready
        self._offer: tuple[str, Message] | None = None
        self._wake = asyncio.Event()
        self._answer: Message | None = None
        self._deaf = False

    def receive(self, peer: str, message: Message) -> None:
        """Take an offer or a piece from `peer`. The message is of the current term."""
        group = self._group
        if group.is_leader or group.leader_id != peer:
            return
        if message["type"] == "snapshot_piece":
            self._answer = message
            self._wake.set()
        elif (
            not self._deaf
            and not self._known(peer, message)
            and group.may_install(peer, message["term"], message["index"])
        ):
            self._offer = (peer, message)
            self._wake.set()

    async def run(self) -> None:
        """Fetch each snapshot that is offered, until cancelled. Raises DiskFailed, after which the node has to end."""
        while await in_thread_behind(self._remove):
            pass
        clear = False
        while True:
            while self._offer is None:
                self._wake.clear()
                try:
                    async with asyncio.timeout(None if clear else CLEAR_S):
                        await self._wake.wait()
                except TimeoutError:
                    clear = await in_thread_behind(self._clear)
            peer, offer = self._offer
            try:
                await self._fetch(peer, offer)
            except Gone as gone:
                log.warning("the snapshot of %s at entry %d is not fetched to its end: %s", peer, offer["index"], gone)
            except (SnapshotRefused, Corrupt, FormatRefused) as refused:
                log.error("the snapshot of %s at entry %d is refused: %s", peer, offer["index"], refused)
                await self._rest()
            finally:
                self.index = self.done_bytes = self.total_bytes = 0
                if self._offer == (peer, offer):
                    self._offer = None

    # Details.

    def _known(self, peer: str, offer: Message) -> bool:
        """True if the offer is for the snapshot that is being fetched now."""
        if self._offer is None:
            return False
        of, known = self._offer
        return of == peer and (known["term"], known["number"]) == (offer["term"], offer["number"])

    async def _rest(self) -> None:
        """Count a snapshot that was refused, and ignore offers for a while. The next try would fail in the same way."""
        self._offer, self._deaf = None, True
        self.failures += 1
        await asyncio.sleep(min(AGAIN_MAX_S, AGAIN_S * 2 ** (self.failures - 1)))
        self._deaf = False

    async def _fetch(self, peer: str, offer: Message) -> None:
        self.index, self.total_bytes = offer["index"], offer["bytes"]
        manifest = await self._manifest(peer, offer)
        install = await in_thread_behind(self._build, manifest)
        lacking, spare = install.bytes_lacking, self._spare_bytes()
        if lacking > spare:
            raise SnapshotRefused(f"it needs {lacking} bytes, and {spare} are free above the reserve")
        log.info("fetching the snapshot of %s at entry %d: %d bytes lack", peer, self.index, lacking)
        for place in manifest.places(together=offer["together"]):
            await self._fetch_piece(peer, offer, install, place)
        await self._verify(peer, offer, install)
        if not self._group.may_install(peer, offer["term"], self.index):
            raise Gone("the log goes on without it")
        self._ready(install, manifest)
        await asyncio.Event().wait()  # the group ends, and this task with it

    async def _manifest(self, peer: str, offer: Message) -> Manifest:
        parts: list[bytes] = []
        for offset in range(0, offer["manifest_bytes"], PIECE_BYTES_MAX):
            size = min(PIECE_BYTES_MAX, offer["manifest_bytes"] - offset)
            piece = await self._pull(peer, offer, Place(0, offset, size))
            parts.append(piece["data"])
        data = b"".join(parts)
        if len(data) != offer["manifest_bytes"] or google_crc32c.value(data) != offer["crc"]:
            raise SnapshotRefused("its manifest does not match the offer")
        manifest = await in_thread_behind(_read_manifest, data)
        own = self._cluster_id()
        if own not in (None, manifest.cluster_id):
            raise SnapshotRefused(
                f"it is of cluster {manifest.cluster_id.hex()}, this node of {own.hex() if own else ''}"
            )
        if manifest.applied_index != offer["index"] or len(manifest.files) > FILES_MAX:
            raise SnapshotRefused(f"its manifest goes up to entry {manifest.applied_index}")
        return manifest

    async def _fetch_piece(self, peer: str, offer: Message, install: Install, place: Place) -> None:
        parts = parts_of(install.manifest.files, place)
        for tries in range(1, DAMAGED_MAX + 1):
            known, crc = await in_thread_behind(_known, install, parts)
            piece = await self._pull(peer, offer, place, known, crc)
            right, data = piece["known"], piece["data"]
            try:
                if right not in (0, known):
                    raise PieceRefused(f"{right} bytes at {place} are said to be right, of {known}")
                if data or right < place.size:
                    await in_thread_behind(install.put, parts, right, data, piece["crc"])
                break
            except PieceRefused as refused:
                log.warning("a piece of %s is damaged: %s", peer, refused)
                if tries == DAMAGED_MAX:
                    raise
        self.done_bytes += place.size

    async def _verify(self, peer: str, offer: Message, install: Install) -> None:
        """Read the whole snapshot back from the disk. Meanwhile send empty pulls, so that the leader knows that this
        node is alive.
        """
        verifying = asyncio.ensure_future(in_thread_behind(install.verify))
        try:
            while not (await asyncio.wait([verifying], timeout=ANSWER_S))[0]:
                self._ask(peer, offer, Place(0, 0, 0))
            verifying.result()
        except (SnapshotRefused, Corrupt, FormatRefused):
            await in_thread_behind(install.discard)  # the wrong part is unknown, so the whole snapshot is fetched again
            raise
        finally:
            if not verifying.done():
                verifying.cancel()
                await asyncio.wait([verifying])

    async def _pull(self, peer: str, offer: Message, place: Place, known: int = 0, crc: int = 0) -> Message:
        """Ask for a piece until its answer comes. This node already has the first `known` bytes of it, with the
        checksum `crc`. Raises Gone.
        """
        asked = (offer["number"], place.file, place.offset)
        for _ in range(PATIENCE):
            self._ask(peer, offer, place, known, crc)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    while True:
                        self._check(peer, offer)
                        answer, self._answer = self._answer, None
                        if answer is None:
                            self._wake.clear()
                            await self._wake.wait()
                        elif answer["number"] == offer["number"] and answer["gone"]:
                            raise Gone("its leader has let go of it")
                        elif (answer["number"], answer["file"], answer["offset"]) == asked:
                            return answer
        raise Gone(f"{peer} did not answer for {PATIENCE * ANSWER_S:.0f} s")

    def _check(self, peer: str, offer: Message) -> None:
        if self._offer != (peer, offer):
            raise Gone("there is a newer offer")
        if self._group.term != offer["term"]:
            raise Gone(f"its term {offer['term']} is over")

    def _ask(self, peer: str, offer: Message, place: Place, known: int = 0, crc: int = 0) -> None:
        pull = {"type": "snapshot_pull", "term": offer["term"], "number": offer["number"], **place._asdict()}
        self._group.send_snapshot(peer, pull | {"known": known, "crc": crc})


def _read_manifest(data: bytes) -> Manifest:
    """Decode the manifest. For a thread, because the manifest may name many files."""
    manifest = Manifest.decode(data)
    assert manifest.files, "a snapshot has its catalog"
    return manifest


def _known(install: Install, parts: list[Part]) -> tuple[int, int]:
    """How many first bytes of a piece this node has, and their CRC32C. (0, 0) if it has none. For a thread."""
    data = install.have(parts)
    return (len(data), google_crc32c.value(data)) if data else (0, 0)
