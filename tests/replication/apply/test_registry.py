"""A command is a row: one more of them is read, ordered, gated and applied, and nothing else is touched."""

from dataclasses import dataclass, replace

import pytest

from replication.apply.applying import Applying
from replication.apply.registry import COMMANDS, KIND_MAX, CommandRow, registered
from replication.command.column import ColumnReader, filled, pack_map
from replication.command.dispatch import DispatchState
from replication.command.entry import Kind, Packed, Section, UnknownCommand, encode_entry
from storage.format.level import LEVELS
from storage.format.registry import BadRow
from tests.replication.applied_log import T0, Log, rise, schedule


@dataclass(frozen=True)
class Count:
    """Says how many units there are, and adds to that."""

    more: int

    def pack(self) -> Packed:
        """As a section."""
        return COUNT.number, 1, [pack_map({"more": self.more})]

    @classmethod
    def unpack(cls, section: Section) -> "Count":
        """From a section."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        return cls(filled(value.get("more"), int, "more"))


def apply_count(applying: Applying, command: Count) -> int:
    """What its proposer is answered."""
    return applying.store.unit_count + command.more


COUNT = CommandRow(55, Count.unpack, apply_count)


def test_a_command_that_a_test_adds_is_applied_in_its_order(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a Schedule of the same entry, whatever order they were given in."""
    monkeypatch.setitem(COMMANDS, COUNT.number, COUNT)
    applied = log.apply(Count(10), schedule(T0, T0 + 1))
    assert (applied.refused, applied.results[1]) == (None, 12)


def test_one_that_says_what_a_dispatcher_means_is_void_in_another_term(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry was decided by one leader and completed by the next."""
    monkeypatch.setitem(COMMANDS, COUNT.number, replace(COUNT, term_bound=True))
    assert log.apply(Count(10), term=3, entry_term=3).results == (10,)
    assert log.apply(Count(10), term=3, entry_term=4).results == (None,)


def test_one_of_a_later_level_is_refused_before_it(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, on every node alike; the rest of its entry with it."""
    monkeypatch.setitem(COMMANDS, COUNT.number, replace(COUNT, since=LEVELS[1]))
    refused = log.apply(Count(10), DispatchState(1_000, 5, 2))
    assert refused.refused == f"count at level 1: there is none before level {LEVELS[1]}"
    assert log.machine.tick == 0
    rise(log)
    assert log.apply(Count(10)).results == (10,)


def test_a_command_that_no_row_is_for_stops_the_node_by_name(log: Log) -> None:
    """The others may know it."""
    entry = encode_entry(group=0, term=1, node=1, now_ms=T0, sections=[Count(1).pack()])
    with pytest.raises(UnknownCommand, match="command kind 55 is unknown to this node"):
        log.machine.apply(log.index + 1, 1, entry)


def apply_other(applying: Applying, command: Count) -> None:
    """Nothing."""


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (replace(COUNT, apply=apply_other, number=Kind.LEASE), "command other: the number 20 is that of lease"),
        (replace(COUNT, number=0), f"command count: a number is 1 to {KIND_MAX}, got 0"),
        (replace(COUNT, number=True), f"command count: a number is 1 to {KIND_MAX}, got True"),
        (replace(COUNT, number=1.5), f"command count: a number is 1 to {KIND_MAX}, got 1.5"),  # type: ignore[arg-type]
        (replace(COUNT, unpack=COMMANDS[Kind.LEASE].unpack), "command count stands here twice"),
        (replace(COUNT, number=256), f"command count: a number is 1 to {KIND_MAX}, got 256"),
        (replace(COMMANDS[Kind.LEASE], number=77), "command lease stands here twice"),
        (replace(COUNT, since=LEVELS[1] + 1), "command count: this build reads levels"),
    ],
)
def test_a_row_that_cannot_be_is_refused_by_name(row: CommandRow, says: str) -> None:
    """When the registry is made: at import."""
    with pytest.raises(BadRow, match=says):
        registered([*COMMANDS.values(), row])


def test_every_number_that_a_build_writes_has_its_row() -> None:
    """Those of `Kind`, in the order of the rows."""
    assert list(COMMANDS) == list(Kind)
