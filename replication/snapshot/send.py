"""The leader's side of a snapshot: reads the pieces that a follower asks for from a pinned checkpoint, one at a time.

```
leader                                            follower
  finds it stranded: pins the last durable
  checkpoint
  offer (number, index, bytes)          ------->    opens a directory for it (fetch.py)
  <-------  pull (file, offset, size, the part of the piece that it has)
  piece (the rest of it, with its checksum)  --->   one at a time, until all are there
                                                    verifies, switches by one rename, opens again
  its log matches at the index: the pin is released; the journal from there on is kept until the follower
  has caught up
```
A follower is stranded when the journal no longer has the entry that it needs next. It was away for longer than the
journal is kept (node/upkeep/journal_trim.py), or came back with an empty disk. The manifest's files are numbered from
1, in its order; 0 is the manifest. A piece may go on in the files that follow its first one. The offer says so
(`together`, since protocol 4).

The leader's loop does a handful of small steps per piece. A thread reads the pieces, and at most one piece is on its
way to each follower. A rate bounds the bytes to all followers together, and a piece is so small that a heartbeat can
wait for it. So the rate alone decides how much of the disk and of the processor is used.

A snapshot under way has to end even under the highest load. So `hold` names the entry from which the journal must stay
for followers that catch up. It does so from the pin until the follower has reached the last checkpoint. The leader
gives the snapshot up if the journal from there on exceeds `hold_bytes`, or if the follower is silent for IDLE_S. It
begins a new one if the follower is still stranded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import google_crc32c

from replication.group import RaftGroup
from replication.snapshot.in_thread import in_thread
from replication.wire.frame import Message
from replication.wire.periodic import next_look
from storage.checkpoint.manifest import TOGETHER, Files, Place, parts_of
from storage.checkpoint.pin import Pin

LOOK_S = 0.1
BEGIN_S = 0.25
"""How often the leader looks for stranded followers."""
OFFER_S = 1.0
"""An offer that the follower does not answer with a pull is repeated after this time."""
IDLE_S = 30.0
"""The snapshot is given up if its follower asks for nothing and appends nothing for this long."""
LOOK_LATE_S = 0.002
LATE_S = 0.005
YIELDS, YIELD_MAX_S = 4, 0.25
"""Before each piece the loop's timer is set for LOOK_LATE_S. If it goes off more than LATE_S late, the loop is busy.

Then the piece waits for YIELDS times that lateness, at most YIELD_MAX_S. So a follower gets 4 MiB/s at least.
"""

FILE_COST = 4096
"""The rate counts each further file that is opened for a piece as this many bytes."""

log = logging.getLogger("hourwheel.snapshot")


class Spawn(Protocol):
    """Runs a coroutine as a background task. An error of the task ends the node."""

    def __call__(self, work: Coroutine[Any, Any, None], /) -> object: ...


@dataclass(slots=True)
class Sending:
    """A snapshot that is being sent to one follower. Invariant: `pin` is held until `installed` or `over` is True."""

    peer: str
    term: int
    """The term in which the follower was found stranded. In a later term another leader may have sent what it lacked.
    """
    number: int
    pin: Pin
    heard_s: float
    index: int = 0
    manifest: bytes = b""
    files: Files = ()
    bytes: int = 0
    sent_bytes: int = 0
    offered_s: float = float("-inf")
    match: int = 0
    busy: bool = True
    """True while a thread reads from the pin."""
    installed: bool = False
    over: bool = False
    released: bool = False

    @property
    def needs(self) -> int:
        """The index of the oldest entry that this follower still needs from the leader's journal."""
        return self.match if self.installed else self.index


class SnapshotSender:
    """Sends snapshots to all stranded followers of one leader. `run` offers them until it is cancelled; `receive` takes
    pulls.

    `pin()` pins the last checkpoint, None if no checkpoint may be sent now. `rate_bytes_s`: the bound for all followers
    together. `hold_bytes`: how much journal may be kept for one.
    """

    def __init__(
        self,
        group: RaftGroup,
        pin: Callable[[], Pin | None],
        *,
        checkpoint_index: Callable[[], int],
        monotonic: Callable[[], float],
        spawn: Spawn,
        rate_bytes_s: int,
        hold_bytes: int,
    ) -> None:
        self.sendings: dict[str, Sending] = {}
        self.sent_bytes = 0
        """Bytes of pieces sent since the start."""
        self.given_up = 0
        """Snapshots that were given up."""
        self._group = group
        self._pin = pin
        self._checkpoint_index = checkpoint_index
        self._monotonic = monotonic
        self._spawn = spawn
        self._rate_bytes_s = rate_bytes_s
        self._hold_bytes = hold_bytes
        self._number = 0
        self._free_s = 0.0  # when the rate allows the next piece

    def hold(self) -> int | None:
        """The index of the first entry in the journal that must be kept for followers which take over a snapshot. None
        if there are none.
        """
        return min((sending.needs for sending in self.sendings.values()), default=None)

    async def run(self) -> None:
        """Offer snapshots to stranded followers. Give a snapshot up if its follower is silent. Works until it is
        cancelled.
        """
        try:
            while True:
                self._look()
                await (asyncio.sleep(LOOK_S) if self.sendings else next_look(BEGIN_S))
        finally:
            for peer in list(self.sendings):
                self._end(peer)

    def receive(self, peer: str, message: Message) -> None:
        """Take a pull of `peer`. A pull that comes while another is being answered is a repetition, and is ignored."""
        sending = self.sendings.get(peer)
        known = sending is not None and (sending.term, sending.number) == (message["term"], message["number"])
        if sending is None or not known or sending.installed:
            self._group.send_snapshot(peer, _piece(message, gone=True))
            return
        sending.heard_s = self._monotonic()
        if message["size"] and not sending.busy:
            sending.busy = True
            self._spawn(self._answer(sending, message))

    # Details.

    def _look(self) -> None:
        group = self._group
        if not group.is_leader:
            for peer in list(self.sendings):
                self._end(peer)
            return
        peers = group.peers
        for peer in list(self.sendings):
            if peer in peers and self.sendings[peer].term == group.term:
                self._attend(self.sendings[peer], connected=peers[peer].connected, match=peers[peer].match_index)
            else:
                self._end(peer)  # removed from the cluster, or of an earlier term
        for peer, known in peers.items():
            if known.stranded and known.connected and peer not in self.sendings:
                self._begin(peer)

    def _begin(self, peer: str) -> None:
        pin = self._pin()
        if pin is None:
            return  # no checkpoint yet, or none that may be sent now: the next look tries again
        self._number += 1
        sending = self.sendings[peer] = Sending(
            peer, self._group.term, self._number, pin, self._monotonic(), pin.applied_index
        )
        self._spawn(self._prepare(sending))

    def _attend(self, sending: Sending, *, connected: bool, match: int) -> None:
        now = self._monotonic()
        if match >= sending.index:
            if not sending.installed:
                sending.installed = True
                self._release(sending)
            if match > sending.match:
                sending.match, sending.heard_s = match, now
            if match >= self._checkpoint_index():
                log.info("%s has taken over the snapshot at entry %d", sending.peer, sending.index)
                self._end(sending.peer)
                return
        if now - sending.heard_s > IDLE_S:
            self._give_up(sending, f"nothing was heard of it for {IDLE_S:.0f} s")
            return
        if self._group.journal.bytes_from(sending.needs) > self._hold_bytes:
            self._give_up(sending, f"the journal behind it has grown past {self._hold_bytes >> 20} MiB")
            return
        waits = connected and not sending.busy and not sending.installed
        if waits and now - max(sending.heard_s, sending.offered_s) >= OFFER_S:
            self._offer(sending, now)

    def _give_up(self, sending: Sending, why: str) -> None:
        self.given_up += 1
        log.warning("the snapshot at entry %d for %s is given up: %s", sending.index, sending.peer, why)
        self._end(sending.peer)

    def _end(self, peer: str) -> None:
        sending = self.sendings.pop(peer)
        sending.over = True
        self._release(sending)

    def _release(self, sending: Sending) -> None:
        """Release the pin of a snapshot, unless a thread reads from it. In that case `_idle` releases it when the
        thread has ended.
        """
        if not sending.busy and not sending.released:
            sending.released = True
            sending.pin.release()

    def _idle(self, sending: Sending) -> None:
        """Note that no thread reads from the pin any more. Release the pin if the snapshot is over or installed."""
        sending.busy = False
        if sending.over or sending.installed:
            self._release(sending)

    def _offer(self, sending: Sending, now: float) -> None:
        sending.offered_s = now
        self._group.send_snapshot(
            sending.peer,
            {
                "type": "snapshot_offer",
                "term": sending.term,
                "number": sending.number,
                "index": sending.index,
                "bytes": sending.bytes,
                "manifest_bytes": len(sending.manifest),
                "crc": google_crc32c.value(sending.manifest),
                "together": True,
            },
        )

    async def _prepare(self, sending: Sending) -> None:
        """Copy the catalog of the pinned checkpoint, make the manifest, and send the first offer."""

        def prepare() -> tuple[bytes, Files, int]:
            manifest = sending.pin.prepare()
            return manifest.encode(), manifest.files, manifest.total_bytes

        try:
            sending.manifest, sending.files, sending.bytes = await in_thread(prepare)
        finally:
            self._idle(sending)
        if not sending.over:
            log.info(
                "%s needs what the journal no longer has: offering the snapshot at entry %d, %d bytes",
                *(sending.peer, sending.index, sending.bytes),
            )
            sending.heard_s = self._monotonic()
            self._offer(sending, sending.heard_s)

    async def _room(self) -> None:
        """Wait before a piece is sent, for longer if the loop is late. On a late loop the piece would delay hand-overs
        more.
        """
        until_s = self._monotonic() + LOOK_LATE_S
        await asyncio.sleep(LOOK_LATE_S)
        late_s = self._monotonic() - until_s
        if late_s > LATE_S:
            await asyncio.sleep(min(YIELDS * late_s, YIELD_MAX_S))

    async def _answer(self, sending: Sending, pull: Message) -> None:
        try:
            await asyncio.sleep(self._free_s - self._monotonic())  # for the rate
            if sending.over:
                return
            piece = await in_thread(self._read, sending, pull)
            if piece["data"]:  # known bytes cost the loop nothing, and after a change of leader most are known
                await self._room()
        finally:
            self._idle(sending)
        cost = len(piece["data"]) + piece["known"] // 4  # known bytes are only read
        cost += FILE_COST * max(0, len(parts_of(sending.files, _place(pull))) - 1)
        self._free_s = max(self._free_s, self._monotonic()) + cost / self._rate_bytes_s
        if not sending.over and self._group.is_leader and self._group.send_snapshot(sending.peer, piece):
            sending.sent_bytes += len(piece["data"]) + piece["known"]
            self.sent_bytes += len(piece["data"])

    @staticmethod
    def _read(sending: Sending, pull: Message) -> Message:
        """Read the piece that a pull asks for. If the follower has its first bytes right, these are left out. For a
        thread.
        """
        place, known = _place(pull), pull["known"]
        if place.file == 0:
            data = sending.manifest[place.offset : place.offset + place.size]
        else:
            parts = parts_of(sending.files, place)
            if sum(part.size for part in parts) < place.size or len(parts) > TOGETHER:
                return _piece(pull, gone=True)
            data = b"".join([sending.pin.read(*part) for part in parts])
        if not 0 < known <= len(data) or google_crc32c.value(data[:known]) != pull["crc"]:
            known = 0
        return _piece(pull, known=known, data=data[known:])


def _place(pull: Message) -> Place:
    return Place(pull["file"], pull["offset"], pull["size"])


def _piece(pull: Message, *, known: int = 0, data: bytes = b"", gone: bool = False) -> Message:
    """Make the answer to a pull. `known` is how many first bytes the follower has right, and `data` the rest of the
    piece. `gone`: this leader has no such snapshot, or the snapshot has no such place.
    """
    return {
        "type": "snapshot_piece",
        "term": pull["term"],
        "number": pull["number"],
        "file": pull["file"],
        "offset": pull["offset"],
        "known": known,
        "gone": gone,
        "crc": google_crc32c.value(data),
        "data": data,
    }
