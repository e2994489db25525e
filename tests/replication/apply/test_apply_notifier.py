"""Who hears of an applied entry as a whole: its commands, and what their proposers are answered."""

import numpy as np
import pytest

from replication.apply.apply_notifier import Changes
from replication.command.dispatch import DispatchState
from replication.command.schedule import Schedule
from replication.command.unlink import Unlink
from tests.replication.applied_log import T0, Log, schedule


def test_an_entry_is_told_once_when_all_of_it_is_applied(log: Log) -> None:
    """In the order in which its commands were applied, with the results of its proposer."""
    told: list[Changes] = []
    seen: list[tuple[int, int]] = []

    def hear(changes: Changes) -> None:
        told.append(changes)
        seen.append((log.machine.applied_index, log.store.unit_count))

    log.machine.told.on_applied = hear
    applied = log.apply(Unlink(np.empty(0, np.int64)), schedule(T0, T0 + 1), term=3, now_ms=T0 + 5)
    (changes,) = told
    assert (changes.index, changes.term, changes.now_ms) == (applied.index, 3, T0 + 5)
    assert [type(command) for command in changes.commands] == [Schedule, Unlink]
    assert changes.results == applied.results
    assert seen == [(applied.index, 2)]


def test_what_is_void_has_no_result_and_what_is_refused_is_not_told(log: Log) -> None:
    """A dispatch state of another term; an entry that is malformed as a whole."""
    told: list[Changes] = []
    log.machine.told.on_applied = told.append
    log.apply(DispatchState(T0 // 1000, 0, 1), term=3, entry_term=4)
    assert [changes.results for changes in told] == [(None,)]
    log.index += 1
    assert log.machine.apply(log.index, 4, b"no entry").refused is not None
    assert len(told) == 1


def test_what_fails_to_hear_ends_the_node(log: Log) -> None:
    """As all that raises in apply."""

    def hear(changes: Changes) -> None:
        raise ZeroDivisionError

    log.machine.told.on_applied = hear
    with pytest.raises(ZeroDivisionError):
        log.apply(schedule(T0))
