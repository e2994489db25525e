"""What one side has to send: in which order it goes, and how far credit reaches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import node.peer_wire.outbox as outbox_module
from node.peer_wire.frame import CALL, CANCEL, Piece
from node.peer_wire.outbox import Outbox, Outgoing
from tests.examples import examples

PIECE = 16
"""Bytes of a piece here: what matters happens as well with few."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all that is sent in this file."""
    monkeypatch.setattr(outbox_module, "PIECE_MAX", PIECE)


class Peer:
    """An outbox, and what came out of it on the other side."""

    def __init__(self, credit: int) -> None:
        self.outbox, self.credit = Outbox(credit), credit
        self.put: list[Outgoing] = []
        self.meant: dict[int, bytes] = {}  # by number, what began
        self.came: dict[int, bytes] = {}
        self.whole: list[int] = []
        self.dropped: list[Outgoing] = []

    def puts(self, size: int, instead: int | None = None) -> Outgoing:
        """A frame of so many bytes; right before it leaves, it becomes one of `instead`."""
        at = len(self.put)

        def begins() -> tuple[int, bytes]:
            number = len(self.meant) + 1
            meant = outgoing.frame if instead is None else bytes([at % 256]) * min(instead, size)
            self.meant[number] = meant
            return number, meant

        frame = bytes((at + each) % 256 for each in range(size))
        outgoing = Outgoing(CALL, frame, begins, name=f"c{at}", dropped=lambda: self.dropped.append(outgoing))
        self.put.append(outgoing)
        self.outbox.put(outgoing)
        return outgoing

    def may(self, more: int) -> None:
        """The owner raises the credit."""
        self.outbox.credit += more
        self.credit += more

    def takes(self, room: int = 1 << 20, most: int = 1 << 20, words: int = 0) -> list[Piece]:
        """A frame, in which there are so many words already; its pieces are read on the other side."""
        pieces, data = [Piece(CANCEL, 1)] * words, list[bytes]()
        left = self.outbox.take_large(pieces, data, self.outbox.take_small(pieces, data, room, most), most)
        del pieces[:words]
        assert len(pieces) == len(data)
        assert words + len(pieces) <= max(most, words)
        assert left == room - sum(map(len, data)) >= 0
        for piece, part in zip(pieces, data, strict=True):
            self._reads(piece, part)
        self.credit -= sum(map(len, data))
        assert self.outbox.credit == self.credit >= 0, "beyond credit"
        assert len(self.came.keys() - set(self.whole)) <= 1, "two are half sent"
        return pieces

    def _reads(self, piece: Piece, part: bytes) -> None:
        assert piece.size == len(part) <= PIECE
        assert piece.number not in self.whole
        assert bool(piece.name) == (piece.number not in self.came), "the first piece has the name, no other"
        so_far = self.came[piece.number] = self.came.get(piece.number, b"") + part
        assert self.meant[piece.number].startswith(so_far), "in order, each byte once"
        assert piece.more == (so_far != self.meant[piece.number])
        if not piece.more:
            self.whole.append(piece.number)

    @property
    def waits(self) -> list[Outgoing]:
        """What has not begun."""
        return [each for each in self.put if not each.number]


SIZES = st.one_of(st.integers(0, PIECE), st.integers(0, 5 * PIECE))
STEPS = st.one_of(
    st.tuples(st.just("put"), SIZES, st.one_of(st.none(), st.integers(0, 2 * PIECE))),
    st.tuples(st.just("may"), st.integers(0, 3 * PIECE)),
    st.tuples(st.just("take"), st.integers(0, 6 * PIECE), st.integers(0, 6), st.integers(0, 2)),
    st.tuples(st.just("remove"), st.integers(0, 50)),
)


@examples(200)
@given(st.integers(0, 4 * PIECE), st.lists(STEPS, max_size=40))
def test_every_byte_goes_once_in_order_and_within_credit(credit: int, steps: list[tuple[str, int]]) -> None:
    """However puts, removals, credit and frames come: there is one large one half sent at most, what waits is counted
    to the byte, and with credit enough all of it arrives."""
    peer = Peer(credit)
    for step, *values in steps:
        if step == "put":
            peer.puts(*values)
        elif step == "may":
            peer.may(*values)
        elif step == "take":
            peer.takes(*values)
        elif peer.waits:
            chosen = peer.waits[values[0] % len(peer.waits)]
            peer.outbox.remove(chosen)
            peer.put.remove(chosen)
        assert peer.outbox.bytes == sum(len(each.frame) - each.at for each in peer.put)
    peer.may(1 << 16)
    while peer.takes(room=4 * PIECE):
        pass
    assert peer.outbox.bytes == 0
    assert peer.came == peer.meant
    assert sorted(peer.whole) == [*range(1, len(peer.put) + 1)]
    peer.outbox.drop()
    assert peer.dropped == []


@examples(80)
@given(st.integers(0, 8 * PIECE), st.lists(SIZES, max_size=12), st.integers(0, 6))
def test_what_is_dropped_had_not_begun(credit: int, sizes: list[int], frames: int) -> None:
    """Each that has not is told, once; and what is half sent is not."""
    peer = Peer(credit)
    for size in sizes:
        peer.puts(size)
    for _ in range(frames):
        peer.takes(room=2 * PIECE, most=3)
    peer.outbox.drop()
    assert len(peer.dropped) == len(peer.waits)
    assert set(map(id, peer.dropped)) == set(map(id, peer.waits))


def test_small_ones_go_first_and_large_ones_in_their_order() -> None:
    """A small one that comes later goes before the next piece."""
    peer = Peer(1 << 20)
    for size in (40, 3, 50, 4):
        peer.puts(size)
    assert [(piece.name, piece.size) for piece in peer.takes(room=7 + 2 * PIECE)] == [
        ("c1", 3), ("c3", 4), ("c0", PIECE), ("", PIECE)
    ]  # fmt: skip
    peer.puts(5)
    assert [(piece.number, piece.size) for piece in peer.takes()] == [
        (4, 5), (3, 8), (5, PIECE), (5, PIECE), (5, PIECE), (5, 2)
    ]  # fmt: skip


def test_one_of_no_bytes_needs_no_credit() -> None:
    """A call may have none, and so an answer."""
    peer = Peer(0)
    peer.puts(0)
    peer.puts(1)
    assert [piece.size for piece in peer.takes()] == [0]
    peer.may(1)
    assert [piece.size for piece in peer.takes()] == [1]


def test_the_rest_of_a_large_one_goes_when_credit_reaches_for_it() -> None:
    """Though it does not for a whole piece: nobody may ever raise it before all of it was sent."""
    peer = Peer(PIECE + 8)
    peer.puts(PIECE + 8)
    peer.takes()
    assert peer.whole == [1]
