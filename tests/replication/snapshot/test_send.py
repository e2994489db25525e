"""The leader's side of a snapshot: offers, the pin and the journal behind it, the pace, and when it gives up."""

import asyncio
from functools import partial
from pathlib import Path

import replication.snapshot.send as module
from replication.wire.frame import Message
from storage.checkpoint.pin import checksum_of
from tests.replication.snapshot_pair import Pair, played
from tests.virtual_time import passes
from tests.waiting import until


def deaf(message: Message) -> None:
    """Nothing of it arrives."""


def test_an_offer_is_repeated_until_it_is_taken_up(tmp_path: Path) -> None:
    """Each the same: the pin, its index and its bytes; and the journal is held from its index on."""

    async def scene(pair: Pair) -> None:
        pair.leader.passes = deaf
        await until(lambda: pair.leader.count("snapshot_offer") >= 3)
        first, *more = pair.leader.sent
        assert all(offer == first for offer in more)
        assert (first["index"], first["term"]) == (pair.index, 3)
        assert first["bytes"] == sum(length for _, length in pair.sending.files)
        assert pair.sender.hold() == pair.index

    played(tmp_path, scene)


def test_nobody_is_offered_what_he_does_not_need(tmp_path: Path) -> None:
    """Not who is not stranded, not who is away, and nobody by a node that does not lead."""

    async def scene(pair: Pair) -> None:
        peer = pair.leader.peers["follower"]
        for stranded, connected, leads in ((False, True, True), (True, False, True), (True, True, False)):
            peer.stranded, peer.connected, pair.leader.is_leader = stranded, connected, leads
            await passes(10 * module.OFFER_S)
            assert pair.sender.hold() is None
            assert not pair.leader.sent
        pair.leader.is_leader = True
        await until(lambda: pair.leader.sent)

    async def quiet(pair: Pair) -> None:
        pair.leader.peers["follower"].stranded = False
        await scene(pair)

    played(tmp_path, quiet)


def test_the_journal_is_held_until_the_follower_has_caught_up(tmp_path: Path) -> None:
    """From its match on once it has started again, and no longer when it has the last checkpoint. The files' pin goes
    at the first: they are on its disk."""

    async def scene(pair: Pair) -> None:
        await pair.whole
        sending, peer = pair.sending, pair.leader.peers["follower"]
        assert pair.sender.hold() == pair.index
        assert not sending.released
        pair.index += 100
        peer.match_index, peer.stranded = sending.index + 5, False
        await until(lambda: sending.installed)
        await until(lambda: pair.sender.hold() == sending.index + 5)
        assert sending.released
        peer.match_index = pair.index
        await until(lambda: pair.sending is None)
        assert pair.sender.hold() is None
        assert pair.sender.given_up == 0

    played(tmp_path, scene)


def test_who_is_silent_is_given_up_and_offered_anew(tmp_path: Path) -> None:
    """After IDLE_S without a word the pin goes; the next one has another number, so late pulls do not mix them up."""

    async def scene(pair: Pair) -> None:
        pair.follower.passes = deaf
        await until(lambda: pair.sender.given_up == 2, within_s=3 * module.IDLE_S)
        numbers = [offer["number"] for offer in pair.leader.sent]
        assert sorted(set(numbers)) == list(range(1, max(numbers) + 1))

    played(tmp_path, scene)


def test_past_the_bound_of_the_journal_it_is_given_up(tmp_path: Path) -> None:
    """The disk is not filled for one node's sake: past `hold_bytes` the journal is free to go."""

    async def scene(pair: Pair) -> None:
        pair.follower.passes = deaf
        await until(lambda: pair.leader.count("snapshot_offer"))
        first = pair.sending
        pair.leader.journal.behind = 1001
        await until(lambda: pair.sender.given_up)
        pair.leader.journal.behind = 0
        await until(lambda: first.released)

    played(tmp_path, scene, hold_bytes=1000)


def test_who_leads_no_more_lets_go(tmp_path: Path) -> None:
    """Stepping down releases the pin and the journal; pulls that still come are told that it is gone."""

    async def scene(pair: Pair) -> None:
        pair.leader.passes = deaf
        await until(lambda: pair.leader.sent)
        sending, offer = pair.sending, pair.leader.sent[0]
        pair.leader.is_leader = False
        await until(lambda: pair.sending is None)
        assert sending.released
        pull = {"type": "snapshot_pull", "term": 3, "number": offer["number"], "file": 1}
        pair.sender.receive("follower", pull | {"offset": 0, "size": 10, "known": 0, "crc": 0})
        assert pair.leader.sent[-1]["gone"]

    played(tmp_path, scene)


def test_pieces_are_paced(tmp_path: Path) -> None:
    """All pieces together leave no faster than the rate: each one pays for itself before the next."""

    async def scene(pair: Pair) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        _, manifest = await pair.whole
        _, last = manifest.files[-1]
        floor_s = (manifest.total_bytes - last) / 200_000
        assert floor_s > 0.05
        assert loop.time() - begun >= floor_s
        assert pair.sender.sent_bytes >= manifest.total_bytes

    played(tmp_path, scene, rate_bytes_s=200_000)


def test_a_pull_while_one_is_answered_is_a_repetition(tmp_path: Path) -> None:
    """Two of the same at once are answered once: one piece is on its way to a follower at a time."""

    async def scene(pair: Pair) -> None:
        pair.leader.passes = deaf
        await until(lambda: pair.leader.sent)
        offer = pair.leader.sent[0]
        pull = {"type": "snapshot_pull", "term": 3, "number": offer["number"], "file": 0}
        for _ in range(5):
            pair.sender.receive("follower", pull | {"offset": 0, "size": 10, "known": 0, "crc": 0})
        await until(lambda: pair.leader.count("snapshot_piece") and not pair.sending.busy)
        assert pair.leader.count("snapshot_piece") == 1

    played(tmp_path, scene)


def test_a_pull_past_the_end_is_answered_and_harms_nobody(tmp_path: Path) -> None:
    """A file or a place that the manifest does not have is gone, as far as the follower is concerned."""

    async def scene(pair: Pair) -> None:
        pair.leader.passes = deaf
        await until(lambda: pair.leader.sent)
        offer = pair.leader.sent[0]
        pull = {"type": "snapshot_pull", "term": 3, "number": offer["number"], "known": 0, "crc": 0}
        for file, offset, size in ((999, 0, 1), (1, 1 << 50, 1), (1, 0, 1 << 20), (2, 0, 1 << 20)):
            count = pair.leader.count("snapshot_piece")
            pair.sender.receive("follower", pull | {"file": file, "offset": offset, "size": size})
            more = partial(lambda before: pair.leader.count("snapshot_piece") > before, count)
            await until(more)
            assert pair.leader.sent[-1]["gone"]
            await until(lambda: not pair.sending.busy)

    played(tmp_path, scene)


def test_pieces_wait_while_the_loop_is_late(tmp_path: Path) -> None:
    """A timer that comes late shows that the loop is wanted elsewhere: the next piece waits several times as long."""

    async def scene(pair: Pair) -> None:
        loop, sender = asyncio.get_running_loop(), pair.sender
        began_s = loop.time()
        await sender._room()
        assert loop.time() - began_s < 2 * module.LATE_S
        late_s, began_s = 0.04, loop.time()
        sender._monotonic = lambda: loop.time() + late_s * (loop.time() > began_s)
        await sender._room()
        assert loop.time() - began_s >= module.YIELDS * late_s

    played(tmp_path, scene)


def test_what_the_follower_has_already_waits_for_no_room(tmp_path: Path) -> None:
    """Chaos run 2102: terms of ten seconds, a node with most of a snapshot, and a quarter of a second for each piece of
    what it had: it was asked for all of that anew by each leader, and never came to the rest."""

    async def scene(pair: Pair) -> None:
        pair.leader.passes = deaf
        await until(lambda: pair.leader.sent)
        sending, waited = pair.sending, 0

        async def room() -> None:
            nonlocal waited
            waited += 1

        pair.sender._room = room  # type: ignore[method-assign]
        name, size = sending.files[0]
        crc = checksum_of(sending.pin.read(name, 0, size))
        pull = {"type": "snapshot_pull", "term": 3, "number": sending.number, "file": 1, "offset": 0, "size": size}
        for known, crc_told, waits in ((size, crc, 0), (size, crc ^ 1, 1), (0, 0, 2)):
            pair.sender.receive("follower", pull | {"known": known, "crc": crc_told})
            await until(lambda: not pair.sending.busy)
            assert (len(pair.leader.sent[-1]["data"]), waited) == (size if waits else 0, waits)

    played(tmp_path, scene)
