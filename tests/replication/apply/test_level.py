"""The level: raised by the log alone, kept in the checkpoint, and what it changes is refused before."""

from pathlib import Path

import pytest

from replication.command.dispatch import DispatchState
from replication.command.entry import UnknownCommand, decode_entry, encode_entry, version_of
from replication.command.level import RaiseLevel
from replication.command.member import ChangeMember
from replication.raft.state_hashes import HASH_BYTES, comparable
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.format.level import FOUNDED, LEVELS, NEEDS, has
from tests.replication.applied_log import GENESIS, T0, Log, checkpoint, raise_to, schedule


def founded(directory: Path) -> Log:
    """A log with a cluster of level 1."""
    log = Log(directory)
    log.apply(GENESIS)
    return log


def test_a_cluster_begins_at_level_1_and_rises_once(tmp_path: Path) -> None:
    """The command raises it and tells; a second one changes nothing; a restart and a checkpoint keep it."""
    log, told = founded(tmp_path), []
    log.machine.told.on_level = lambda: told.append(log.machine.level)
    assert (log.machine.level, log.store.level) == (FOUNDED, FOUNDED)
    checkpoint(log)
    assert log.store.checkpoint is not None
    assert log.store.checkpoint.encode()[:2] == b"\x01\x00"
    assert raise_to(log, 2).results == (True,)
    assert raise_to(log, 2).results == (False,)
    assert (log.machine.level, log.store.level, told) == (2, 2, [2])
    checkpoint(log)
    rolling = log.machine.rolling_hash
    log.store.close()
    again = Log(tmp_path)
    record = again.store.checkpoint
    assert record is not None
    assert (again.machine.level, record.level, record.hash_version, record.encode()[:2]) == (2, 2, 2, b"\x02\x00")
    assert (again.machine.rolling_hash, again.machine.sums.at(again.index)) == (rolling, b"\x02" + rolling)
    again.store.close()


def test_a_raise_is_void_when_the_members_changed_meanwhile(tmp_path: Path) -> None:
    """Nobody asked the new member what it reads."""
    log = founded(tmp_path)
    before = log.store.catalog.members.index
    log.apply(ChangeMember("add", "n4", before, "h:7500", "h:7400"))
    assert raise_to(log, 2, basis=before).results == (False,)
    assert log.machine.level == FOUNDED
    assert raise_to(log, 2).results == (True,)
    log.store.close()


def test_an_entry_above_the_level_is_refused_and_one_below_it_is_not(tmp_path: Path) -> None:
    """An entry of version 2 at level 1 is of nobody; one of version 1 at level 2 was proposed just before it rose."""
    log = founded(tmp_path)
    log.index += 1
    early = encode_entry(group=0, term=1, node=1, now_ms=T0, sections=[DispatchState(1, 0, 0).pack()], version=2)
    assert "an entry of version 2 at level 1" in (log.machine.apply(log.index, 1, early).refused or "")
    assert "version 1 that raises the level" in (raise_to(log, 2, version=1).refused or "")
    assert log.machine.level == FOUNDED
    raise_to(log, 2)
    assert log.apply(schedule(T0 + 5)).refused is None
    log.store.close()


@pytest.mark.parametrize("level", [0, 1, -1, 4, 255])
def test_a_level_that_this_build_does_not_know_stops_it_or_is_refused(tmp_path: Path, level: int) -> None:
    """A higher one is a newer build's: the node stops, naming the version. One below 2 is malformed."""
    log = founded(tmp_path)
    if level > LEVELS[1]:
        with pytest.raises(UnknownCommand, match=f"version {level}"):
            raise_to(log, level)
    else:
        assert raise_to(log, level, version=2).refused is not None
    assert log.machine.level == FOUNDED
    log.store.close()


def test_the_hash_says_by_which_version_it_was_made(tmp_path: Path) -> None:
    """At level 1 it is told bare, from the raising entry on with its version; the two are never compared."""
    log = founded(tmp_path)
    bare = log.machine.sums.at(log.index)
    raise_to(log, 2)
    told = log.machine.sums.at(log.index)
    assert bare is not None
    assert told is not None
    assert (len(bare), len(told), told[0]) == (HASH_BYTES, HASH_BYTES + 1, 2)
    assert not comparable(bare, told)
    assert comparable(told, b"\x02" + bytes(HASH_BYTES))
    log.store.close()


def test_what_needs_a_level_is_in_one_table() -> None:
    """A feature that is not named there is a mistake of ours; each needs a level that this build reads."""
    assert all(LEVELS[0] < needed <= LEVELS[1] for needed in NEEDS.values())
    assert not any(has(FOUNDED, feature) for feature in NEEDS)
    with pytest.raises(KeyError):
        has(2, "nothing of that name")


def test_the_version_of_an_entry_is_told_without_reading_it() -> None:
    """Also of a no-op, which is a single byte."""
    raised = encode_entry(group=0, term=1, node=1, now_ms=T0, sections=[RaiseLevel(2, 0).pack()], version=2)
    assert (version_of(raised), version_of(b"\x01"), decode_entry(raised).version) == (2, 1, 2)


def test_a_record_without_a_level_is_of_level_1() -> None:
    """And is written as it always was."""
    record = CheckpointRecord(
        applied_index=1, applied_term=1, tick=0, local_index=0, state_applied_index=0, max_now_ms=0
    )
    assert record.version == 1
    assert CheckpointRecord.decode(record.encode()) == record
