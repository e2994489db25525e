"""The follower's side of a snapshot: what it asks for, what it refuses, and that it ends whatever is lost."""

import asyncio
import contextlib
from pathlib import Path
from random import Random

import google_crc32c
import pytest

import replication.snapshot.fetch as module
from replication.wire.frame import Message
from storage.checkpoint.manifest import Part, parts_of
from storage.checkpoint.pin import checksum_of
from storage.directory.snapshot_install import INSTALL, Install
from storage.directory.verify import verify
from storage.file.disk import Disk
from tests.replication.snapshot_pair import Pair, played
from tests.waiting import until


def test_all_of_it_comes_and_is_sound(tmp_path: Path) -> None:
    """The manifest, then every file, built aside; the node is told when it has been read back."""

    async def scene(pair: Pair) -> None:
        _, manifest = await pair.whole
        assert manifest.applied_index == pair.index
        assert pair.fetcher.index == pair.index
        assert pair.fetcher.done_bytes == pair.fetcher.total_bytes == manifest.total_bytes
        assert verify(pair.directory / INSTALL, disk=Disk()).sound
        assert pair.to_remove == 0, "what the last one replaced went before"

    played(tmp_path, scene)


@pytest.mark.parametrize("together", [False, True])
def test_what_is_lost_is_asked_for_again(tmp_path: Path, together: bool) -> None:
    """A third of the messages in either direction goes missing."""
    random = Random(5)

    async def scene(pair: Pair) -> None:
        pair.leader.passes = pair.follower.passes = lambda message: message if random.random() > 0.33 else None
        await pair.whole

    played(tmp_path, scene, together=together)


def test_small_files_come_together(tmp_path: Path) -> None:
    """One piece has many. Of one that is partly there what stands behind that travels, over the ends of files."""

    async def scene(pair: Pair) -> None:
        pin = pair.store.pin()
        assert pin is not None
        manifest = pin.prepare()
        ((place, parts),) = [
            (place, parts)
            for place in manifest.places(together=True)
            if len(parts := parts_of(manifest.files, place)) > 1
        ]
        there = Part(parts[1].name, 0, parts[1].size // 2)
        install = Install(pair.directory, manifest, Disk())
        for part in (parts[0], there):
            data = pin.read(*part)
            install.put([part], 0, data, checksum_of(data))
        pin.release()
        await pair.whole
        pieces = [message for message in pair.leader.sent if message["type"] == "snapshot_piece" and message["file"]]
        assert len(pieces) == len(list(manifest.places(together=True))) < len(manifest.files)
        (piece,) = [message for message in pieces if message["file"] == place.file]
        assert piece["known"] == parts[0].size + there.size
        assert len(piece["data"]) == place.size - piece["known"]
        assert verify(pair.directory / INSTALL, disk=Disk()).sound

    played(tmp_path, scene, together=True)


def test_what_is_there_already_is_not_sent_again(tmp_path: Path) -> None:
    """A second fetch of the same, as after a crash, costs the manifest and not a byte of the files."""

    async def scene(pair: Pair) -> None:
        _, manifest = await pair.whole
        before = pair.sender.sent_bytes
        pair.whole = asyncio.get_running_loop().create_future()
        pair.tasks.pop().cancel()
        again = pair.tasks[1]
        again.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await again
        pair.fetcher._offer = None
        pair.spawn(pair.fetcher.run())
        await pair.whole
        assert pair.sender.sent_bytes - before == len(manifest.encode())

    played(tmp_path, scene)


def test_a_beginning_that_is_right_is_kept(tmp_path: Path) -> None:
    """Of a piece of which this node has a part only the rest travels; one that is wrong there comes whole."""

    async def scene(pair: Pair) -> None:
        pin = pair.store.pin()
        assert pin is not None
        manifest = pin.prepare()
        install = Install(pair.directory, manifest, Disk())
        (first, length), (second, _) = [file for file in manifest.files if file[0].endswith("/log")][:2]
        half = pin.read(first, 0, length // 2)
        install.put([Part(first, 0, len(half))], 0, half, checksum_of(half))
        install.put([Part(second, 0, 5)], 0, b"wrong", checksum_of(b"wrong"))
        pin.release()
        await pair.whole
        sent = {message["file"]: message for message in pair.leader.sent if message["type"] == "snapshot_piece"}
        names = [name for name, _ in manifest.files]
        assert sent[names.index(first) + 1]["known"] == len(half)
        assert sent[names.index(second) + 1]["known"] == 0

    played(tmp_path, scene)


def test_another_clusters_snapshot_is_refused(tmp_path: Path) -> None:
    """A node that belongs to a cluster takes nothing of another one, whoever offers it: not a file is made."""

    async def scene(pair: Pair) -> None:
        pair.cluster_id = b"another cluster!"
        await until(lambda: pair.fetcher.failures == 2)
        assert not (pair.directory / INSTALL).exists()
        assert not pair.whole.done()
        pair.cluster_id = pair.store.cluster_id
        await pair.whole

    played(tmp_path, scene)


def test_without_room_it_waits(tmp_path: Path) -> None:
    """A snapshot that would touch the reserve is not begun; when there is room it is."""

    async def scene(pair: Pair) -> None:
        pair.spare_bytes = 100
        await until(lambda: pair.fetcher.failures == 2)
        pair.spare_bytes = 1 << 40
        await pair.whole

    played(tmp_path, scene)


def test_a_piece_that_stays_damaged_ends_the_try(tmp_path: Path) -> None:
    """It is asked for three times; the next try finds the rest there."""
    sound = False

    def spoil(message: Message) -> Message:
        wrong = not sound and message["type"] == "snapshot_piece" and message["file"] == 2
        return message | {"data": message["data"][:-1] + b"?"} if wrong else message

    async def scene(pair: Pair) -> None:
        nonlocal sound
        pair.leader.passes = spoil
        await until(lambda: pair.fetcher.failures == 1)
        asked = [pull for pull in pair.follower.sent if pull["file"] == 2]
        assert len(asked) == 3
        sound = True
        await pair.whole

    played(tmp_path, scene)


@pytest.mark.parametrize("wrong", [b"", b"longer than was asked for"])
def test_a_piece_of_another_size_is_damaged(tmp_path: Path, wrong: bytes) -> None:
    """Too little or too much for the place that was asked for is not written, though its checksum is right."""
    hits = 0

    def spoil(message: Message) -> Message:
        nonlocal hits
        if message["type"] != "snapshot_piece" or message["file"] != 3 or hits == 2:
            return message
        hits += 1
        data = wrong and message["data"] + wrong
        return message | {"data": data, "crc": google_crc32c.value(data)}

    async def scene(pair: Pair) -> None:
        pair.leader.passes = spoil
        await pair.whole
        assert hits == 2

    played(tmp_path, scene)


def test_a_manifest_that_is_not_the_offers_is_refused(tmp_path: Path) -> None:
    """Its checksum stands in the offer."""
    hits = 0

    def spoil(message: Message) -> Message:
        nonlocal hits
        if message["type"] != "snapshot_piece" or message["file"] or hits:
            return message
        hits += 1
        return message | {"data": message["data"][:-1] + b"?"}

    async def scene(pair: Pair) -> None:
        pair.leader.passes = spoil
        await pair.whole
        assert (hits, pair.fetcher.failures) == (1, 1)

    played(tmp_path, scene)


def test_an_offer_that_is_behind_this_node_is_not_listened_to(tmp_path: Path) -> None:
    """A node that may not forget its log for it (it is newer, or is being sent entries again) asks for nothing."""

    async def scene(pair: Pair) -> None:
        pair.follower.installable = False
        await until(lambda: pair.leader.count("snapshot_offer") >= 3)
        assert not pair.follower.sent

    played(tmp_path, scene)


def test_who_comes_to_have_the_entries_does_not_take_it_over(tmp_path: Path) -> None:
    """Found out at the very end: the snapshot is left alone, for what was acknowledged meanwhile is not in it."""

    async def scene(pair: Pair) -> None:
        def last(message: Message) -> Message:
            if message["type"] == "snapshot_pull" and message["size"] and message["file"] > 1:
                pair.follower.installable = False
            return message

        pair.follower.passes = last
        await until(lambda: not pair.follower.installable and pair.fetcher.index == 0)
        assert not pair.whole.done()

    played(tmp_path, scene)


def test_only_the_leader_is_listened_to(tmp_path: Path) -> None:
    """Offers of anybody else are nothing, and so they are to a node that leads."""

    async def scene(pair: Pair) -> None:
        pair.follower.leader_id = "somebody else"
        await until(lambda: pair.leader.count("snapshot_offer") >= 2)
        pair.follower.leader_id, pair.follower.is_leader = "leader", True
        await until(lambda: pair.leader.count("snapshot_offer") >= 4)
        assert not pair.follower.sent
        pair.follower.is_leader = False
        await pair.whole

    played(tmp_path, scene)


def test_a_newer_offer_takes_the_place_of_the_one_under_way(tmp_path: Path) -> None:
    """The sender gave up and began anew: the fetch goes over to the new number, with what it has."""

    async def scene(pair: Pair) -> None:
        held = asyncio.Event()

        def stop_at_second(message: Message) -> Message | None:
            if message["type"] == "snapshot_piece" and message["file"] == 2 and message["number"] == 1:
                held.set()
                return None
            return message

        pair.leader.passes = stop_at_second
        await held.wait()
        pair.sender._end("follower")
        await pair.whole
        assert pair.follower.sent[-1]["number"] == 2

    played(tmp_path, scene)


def test_a_leader_that_is_silent_is_left(tmp_path: Path) -> None:
    """After PATIENCE repetitions the fetch ends, and takes up the next offer."""

    async def scene(pair: Pair) -> None:
        mute = True

        def pieces_lost(message: Message) -> Message | None:
            return None if mute and message["type"] == "snapshot_piece" else message

        pair.leader.passes = pieces_lost
        await until(lambda: pair.follower.count("snapshot_pull") >= 1)
        await until(lambda: pair.fetcher.index == 0)
        assert pair.follower.count("snapshot_pull") == module.PATIENCE
        mute = False
        await pair.whole

    played(tmp_path, scene)


def test_what_a_try_left_goes_when_it_is_not_needed(tmp_path: Path) -> None:
    """A node that caught up by other means clears it away, once nothing is being fetched."""

    async def scene(pair: Pair) -> None:
        pair.leader.peers["follower"].stranded = False
        (pair.directory / INSTALL / "hours").mkdir(parents=True)
        await until(lambda: not (pair.directory / INSTALL).exists())

    played(tmp_path, scene)
