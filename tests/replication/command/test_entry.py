"""The entry's bytes: what goes in comes out, and what does not fit is refused before anything is applied."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.apply.registry import COMMANDS as ROWS
from replication.command.dispatch import DispatchState, Promotion, Realign
from replication.command.entry import Command, EntryRefused, Kind, UnknownCommand, decode_entry, encode_entry
from replication.command.genesis import Genesis
from replication.command.handover import Extend, Fail, Lease, Release, Settle
from replication.command.level import RaiseLevel
from replication.command.member import ChangeMember
from replication.command.message import Cancel, Redrive, Reschedule
from replication.command.once import KeyedRequest, Once
from replication.command.operation import BeginOperation, ChangeOperation, OperationChunk
from replication.command.overdue import OverdueCutoff
from replication.command.schedule import Key, Schedule
from replication.command.supersede import Changes, ScheduleAll, Supersede
from replication.command.topic import DropTopic, PutTopic
from replication.command.unlink import Unlink
from storage.format.level import LEVELS
from storage.format.position import GONE
from storage.record.record import Drafts, encode_records
from storage.tables.operation_row import OperationWish, Point

RECORDS = encode_records(
    Drafts(bodies=[b"{}", b"[1, 2, 3, 4]"], asked_due_ms=np.array([10, 20]), random=np.array([5, 6], np.uint64))
)


def _keyed(first: int, second: int) -> Schedule:
    """Two messages with keys of these rules."""
    keys = Key(0, b"k", b"f" * 16, first), Key(1, b"l", b"g" * 16, second)
    due_ms, topic, tags = np.array([10, 20], np.int64), np.zeros(2, np.uint16), np.empty(0, np.uint64)
    return Schedule(("a",), due_ms, RECORDS.size, RECORDS.blob, topic, tags, keys)


CHANGES = Changes(
    holder=np.array([7, GONE], np.uint64),
    doubtful=np.array([1, 0], np.uint8),
    max_wait_ms=np.array([0, 5_000], np.int64),
    due_only=np.array([0, 1], np.uint8),
)
COMMANDS: list[Command] = [
    Genesis(b"c" * 16, b"s" * 32, ("n1", "n2", "n3"), 1000, 2000),
    ChangeMember("add", "n4", 17, "h:7500", "h:7400"),
    RaiseLevel(2, 17),
    Once({20: KeyedRequest("default", b"k", "cancel", b"f" * 16, "anonymous", "orders")}),
    Realign(1_700_000_000, 1_700_000_000_500, 12),
    DispatchState(1_700_000_000, 5, 11),
    Promotion(1_700_000_001_500),
    Lease(
        np.array([1, 2], np.uint64), np.array([1, 1], np.uint16), np.array([5, 6], np.int64), np.array([3, 4], np.int64)
    ),
    Settle(np.array([1], np.uint64), np.array([7], np.uint32), np.array([2], np.uint16), np.array([200], np.uint16)),
    Fail(
        np.array([1, 2], np.uint64),
        np.array([7, 8], np.uint32),
        np.array([2, 3], np.uint16),
        np.array([500, 1000], np.uint16),
        np.array([1, 2], np.uint8),
        np.array([9_000, 0], np.int64),
        np.array([3, 4], np.uint64),
        (b"went away", b""),
    ),
    Extend(np.array([3], np.uint64), np.array([7], np.uint32), np.array([2], np.uint16), np.array([99], np.int64)),
    Release(np.array([4, 5], np.uint64), np.array([6, 7], np.uint32), np.array([1, 3], np.uint16)),
    Cancel(np.array([9, 10, 11], np.uint64), np.array([0, 1, 0], np.uint8), np.array([0, 0, 4], np.uint32)),
    Reschedule(np.array([12], np.uint64), np.array([77], np.int64), np.array([2], np.uint32), np.array([1], np.uint8)),
    Redrive(np.array([13, 14], np.uint64), np.array([78, 79], np.int64)),
    PutTopic("default", "orders", {"paused": True}, replace=False, revision=3),
    DropTopic("default", "orders", 77, 1_000, 3),
    Schedule(
        ("a", "b"),
        np.array([10, 20], np.int64),
        RECORDS.size,
        RECORDS.blob,
        np.array([0, 1], np.uint16),
        np.array([1, 2], np.uint64),
        (Key(1, b"k", b"f" * 16, 1),),
    ),
    Supersede(_keyed(2, 3), CHANGES),
    ScheduleAll(_keyed(0, 3), CHANGES),
    Unlink(np.array([472_222], np.int64)),
    OverdueCutoff(1_700_000_000_000, done=True),
    BeginOperation(
        OperationWish(
            kind="redrive",
            topics=("orders", "bills"),
            from_ms=5,
            tag="eu",
            reason="http-503",
            by_ms=-7,
            to_due_ms=8,
            rate=9,
            note="a flood",
        ),
        77,
    ),
    OperationChunk(12, Point(5, 6), Point(7, 1 << 63), False, np.array([15, 16], np.uint64)),
    ChangeOperation(12, 2, 1_700_000_000_000),
]


def entry_of(*commands: Command) -> bytes:
    """An entry with these commands as sections."""
    return encode_entry(group=0, term=7, node=2, now_ms=123, sections=[command.pack() for command in commands])


def same(one: Any, other: Any) -> bool:
    """Whether two commands have equal fields; arrays compare by content."""
    if type(one) is not type(other):
        return False
    for name in type(one).__dataclass_fields__:
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, np.ndarray):
            if left.dtype != right.dtype or not np.array_equal(left, right):
                return False
        elif isinstance(left, bytes | memoryview):
            if bytes(left) != bytes(right):
                return False
        elif isinstance(left, Schedule):
            if not same(left, right):
                return False
        elif isinstance(left, Changes) and isinstance(right, Changes):
            if [(each.dtype, each.tolist()) for each in left] != [(each.dtype, each.tolist()) for each in right]:
                return False
        elif left != right:
            return False
    return True


def test_every_command_comes_back_in_the_order_of_its_kind() -> None:
    """All commands in one entry, given in reverse: each is read back equal, in the order of effect."""
    envelope = decode_entry(entry_of(*reversed(COMMANDS)))
    assert (envelope.term, envelope.node, envelope.now_ms) == (7, 2, 123)
    assert [section.kind for section in envelope.sections] == sorted(Kind)
    for section, command in zip(envelope.sections, COMMANDS, strict=True):
        assert same(ROWS[section.kind].unpack(section), command), section.kind


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_no_byte_of_an_entry_can_crash_the_reader(at: int, value: int) -> None:
    """Whatever one byte becomes, the reader gives commands or one of its two refusals."""
    entry = bytearray(entry_of(*COMMANDS))
    entry[at % len(entry)] = value
    try:
        envelope = decode_entry(bytes(entry))
        for section in envelope.sections:
            if section.kind in ROWS:
                ROWS[section.kind].unpack(section)
    except (EntryRefused, UnknownCommand):
        pass


@pytest.mark.parametrize("length", range(0, 200, 7))
def test_a_short_entry_is_refused(length: int) -> None:
    """Cut anywhere, an entry is refused, not read in part."""
    with pytest.raises(EntryRefused):
        decode_entry(entry_of(*COMMANDS)[:length])


def test_an_unknown_version_stops_the_node_by_name() -> None:
    """What the others may know and this node does not is another error than a broken entry."""
    entry = bytearray(entry_of(DispatchState(1, 2, 3)))
    entry[0] = LEVELS[1] + 1
    with pytest.raises(
        UnknownCommand, match=f"version {LEVELS[1] + 1}, kind 1: this node reads versions 1 to {LEVELS[1]}"
    ):
        decode_entry(bytes(entry))


def test_a_schedule_whose_sizes_do_not_add_up_is_refused() -> None:
    """Records are cut out of the blob by their sizes: they must fill it exactly."""
    broken = Schedule(
        ("a",), np.array([1], np.int64), np.array([16], np.uint32), bytes(24), np.array([0], np.uint16),
        np.empty(0, np.uint64),
    )  # fmt: skip
    section = decode_entry(entry_of(broken)).sections[0]
    with pytest.raises(EntryRefused, match="16 bytes by their sizes, 24 bytes found"):
        Schedule.unpack(section)


HEX_WIDTH = 80
GOLDEN = Path(__file__).parents[1] / "golden" / "entry_v1.hex"


def test_planned_leases_say_so() -> None:
    """The word stands in the map, and is absent where it is not so: fast Leases are what they were."""
    one = np.ones(1, np.int64)
    lease = Lease(one.astype(np.uint64), one.astype(np.uint16), one, one, planned=True)
    (section,) = decode_entry(entry_of(lease)).sections
    assert same(Lease.unpack(section), lease)
    assert b"planned" not in entry_of(COMMANDS[5])


LATER = RaiseLevel | Once | Promotion | Supersede | ScheduleAll | BeginOperation | OperationChunk | ChangeOperation
"""Commands that came after level 1."""


@pytest.mark.parametrize(("file", "later"), [("entry_v1.hex", False), ("entry_v4.hex", True)])
def test_golden_bytes(pytestconfig: pytest.Config, file: str, later: bool) -> None:
    """An entry with a command of every kind is, byte for byte, what the version with that kind wrote: journals hold
    it."""
    shown = entry_of(*(command for command in COMMANDS if isinstance(command, LATER) is later)).hex()
    text = "".join(shown[at : at + HEX_WIDTH] + "\n" for at in range(0, len(shown), HEX_WIDTH))
    golden = GOLDEN.with_name(file)
    if pytestconfig.getoption("--golden"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_a_cancel_or_reschedule_need_not_name_revision_or_doubt() -> None:
    """Empty columns go as zeros: any revision, no doubt."""
    home, due = np.array([4, 5], np.uint64), np.array([1, 2], np.int64)
    cancels, moves = decode_entry(entry_of(Cancel(home, np.zeros(2, np.uint8)), Reschedule(home, due))).sections
    assert Cancel.unpack(cancels).revision.tolist() == [0, 0]
    assert (Reschedule.unpack(moves).revision.tolist(), Reschedule.unpack(moves).doubtful.tolist()) == ([0, 0], [0, 0])


def test_the_dispatch_state_costs_the_same_for_one_unit_or_a_million() -> None:
    """A6: the entry's size does not depend on what was dispatched."""
    assert len(entry_of(DispatchState(1, 1, 1))) == len(entry_of(DispatchState(1, 1_000_000, 10**12))) == 80
