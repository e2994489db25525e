"""Random commands about messages, against the dumb model; and two machines that agree, whatever each did in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.command.dispatch import DispatchState
from replication.command.entry import Command
from replication.command.handover import Extend, Fail, Settle
from replication.command.message import Reschedule
from replication.command.schedule import Schedule
from replication.command.topic import PutTopic
from replication.command.unlink import Unlink
from storage.directory.verify import digest, verify
from storage.format.array import U8, U32, U64
from storage.format.states import CANCELLED, DEAD, DELIVERED, FORWARDED, LEASED, PENDING
from storage.record.record import EXTENSION_OF_APPLY
from tests.examples import examples
from tests.replication.applied_log import (
    GENESIS,
    HOUR_MS,
    T0,
    Log,
    ack,
    cancel,
    checkpoint,
    extend,
    fail,
    files,
    lease,
    redrive,
    reschedule,
    schedule,
)
from tests.replication.message_model import MessageModel

TOPICS = ("orders", "graves", "plain")
DEAD_LETTER = {"orders": "graves", "graves": "orders"}
ACK = ("acked", "stale", "invalid")
WISH = ("free", "leased", "settled", "unknown", "mismatch")
ENDED = {"delivered": DELIVERED, "cancelled": CANCELLED, "dead": DEAD}
DUE_OFFSETS = (-5_000, 0, 1, 1_000, 40 * 60_000, 2 * HOUR_MS)
STEPS_MS = (0, 1, 500, 31_000, 61_000, HOUR_MS // 2, HOUR_MS)

Row = tuple[int, int, int]
ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6)
KINDS = ("state", "lease", "settle", "fail", "extend", "cancel", "reschedule", "redrive", "schedule", "unlink")
ENTRIES = st.lists(
    st.tuples(st.integers(0, len(STEPS_MS) - 1), st.booleans(), st.dictionaries(st.sampled_from(KINDS), ROWS)),
    max_size=14,
)


class Recorder:
    """The listener: what one entry moved, made and ended."""

    def __init__(self) -> None:
        self.moved: dict[tuple[int, int], int] = {}
        self.units: list[int] = []
        self.settled: list[int] = []

    def on_units(self, due_ms: Any, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """New units; a moved one was told of before."""
        self.units += position.tolist()

    def on_moved(self, home: U64, old: U64, position: U64) -> None:
        """Moves, before their units."""
        assert not set(position.tolist()) & set(self.units)
        self.moved |= {(h, o): p for h, o, p in zip(home.tolist(), old.tolist(), position.tolist(), strict=True)}

    def on_settled(self, position: U64) -> None:
        """Ended, or moved away."""
        self.settled += position.tolist()

    def on_leased(self, position: U64, attempt: Any, lease_end_ms: Any) -> None:
        """Not of interest here."""

    def on_released(self, position: U64) -> None:
        """Not of interest here."""

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """Not of interest here."""


class Trial:
    """One machine and the model beside it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.recorder = Recorder()
        self.model = MessageModel(self._moved, self._copied, DEAD_LETTER)
        self.now_ms, self.term, self.tick = T0, 1, 0
        self.randoms = 1_000
        log.apply(GENESIS)
        for topic, letter in DEAD_LETTER.items():
            log.apply(PutTopic("default", topic, {"dead_letter": letter}, replace=True))

    def _moved(self, home: int, old: int) -> int:
        return self.recorder.moved[home, old]

    def _copied(self, random: int) -> int:
        records = self.log.store.records(np.array(self.recorder.units, np.uint64))
        (position,) = [record.position for record in records if record.random == random]
        return position

    def step(self, later_ms: int, next_term: bool, kinds: dict[str, list[Row]]) -> None:
        """One entry with a command of each kind, and the judgement of all its results."""
        self.now_ms += later_ms
        self.term += next_term
        if not kinds:
            return
        self.recorder = self.log.machine.told.listener = Recorder()
        self.model.now_ms, self.model.left = self.now_ms, []
        ordered = [kind for kind in KINDS if kind in kinds]
        commands = [getattr(self, kind)(kinds[kind]) for kind in ordered]
        applied = self.log.apply(*commands, now_ms=self.now_ms, term=self.term)
        assert applied.refused is None
        for kind, command, result in zip(ordered, commands, applied.results, strict=True):
            getattr(self, f"judge_{kind}")(command, result)
        assert sorted(self.recorder.settled) == sorted(self.model.left)
        assert set(self.recorder.moved.values()) <= set(self.recorder.units)

    # what an entry says

    def _place(self, pick: int) -> int:
        places = sorted(self.model.home_of)
        return places[pick % len(places)] if places and pick < 38 else (T0 // HOUR_MS) << 40 | 10_000 + pick

    def _home(self, pick: int) -> int:
        homes = sorted(self.model.messages)
        return homes[pick % len(homes)] if homes and pick < 36 else self._place(pick)

    def _claim(self, pick: int, how: int) -> tuple[int, int, int]:
        """A hand-over of a place: the newest known, one the log never saw, the one that closed it, or an old one."""
        place = self._place(pick)
        message, closed = self.model.open_at(place), self.model.closed.get(place)
        if closed and how < 4:
            return place, closed.term, closed.attempt
        if message and how < 3:
            return place, *message.newest
        if message and how == 3:
            return place, self.term, message.attempts + 1
        return place, max(0, self.term - 1), 1

    def state(self, rows: list[Row]) -> DispatchState:
        """The clock's second."""
        return DispatchState(self.now_ms // 1000 + rows[0][1] - 2, 0, 1)

    def lease(self, rows: list[Row]) -> Command:
        """Hand-overs with the next attempt, or not."""
        picked = {self._place(pick): how for pick, how, _ in rows}
        open_ = {place: self.model.open_at(place) for place in picked}
        self.attempts = [(m.attempts + 1 if m else 1) - (picked[place] == 5) for place, m in open_.items()]
        command = lease(*picked, end_ms=self.now_ms + 30_000, at_ms=self.now_ms)
        command.attempt[:] = self.attempts
        return command

    def settle(self, rows: list[Row]) -> Settle:
        """Acks."""
        return ack(*(self._claim(pick, how) for pick, how, _ in rows))

    def fail(self, rows: list[Row]) -> Fail:
        """Some to be tried again, some dead."""
        command = fail(
            *(self._claim(pick, how) for pick, how, _ in rows),
            random=self.randoms,
            texts=tuple(b"e%d" % which if which else b"" for _, _, which in rows),
        )
        self.randoms += len(rows)
        for row, (pick, _, which) in enumerate(rows):
            command.fate[row] = 1 + (pick + which) % 2
            command.due_ms[row] = self.now_ms + DUE_OFFSETS[which] if command.fate[row] == 1 else 0
        return command

    def extend(self, rows: list[Row]) -> Extend:
        """Longer leases, or ended ones; one end for each hand-over."""
        ends = {claim: self.now_ms + which * 20_000 for *claim_, which in rows for claim in [self._claim(*claim_)]}
        return extend(*((*claim, end) for claim, end in ends.items()))

    def cancel(self, rows: list[Row]) -> Command:
        """With and without a revision."""
        command = cancel(*(self._home(pick) for pick, _, _ in rows))
        command.doubtful[:] = [how == 1 for _, how, _ in rows]
        command.revision[:] = [max(0, which - 3) for _, _, which in rows]
        return command

    def reschedule(self, rows: list[Row]) -> Reschedule:
        """To earlier and later."""
        return reschedule(
            *((self._home(pick), self.now_ms + DUE_OFFSETS[how]) for pick, how, _ in rows),
            revision=[max(0, which - 3) for _, _, which in rows],
            doubtful=rows[0][2] == 0,
        )

    def redrive(self, rows: list[Row]) -> Command:
        """Dead or not."""
        return redrive(*(self._home(pick) for pick, _, _ in rows), due_ms=self.now_ms + DUE_OFFSETS[rows[0][1]])

    def schedule(self, rows: list[Row]) -> Schedule:
        """New messages of one topic."""
        due = [self.now_ms + DUE_OFFSETS[how] + pick for pick, how, _ in rows]
        return schedule(*due, topic=TOPICS[rows[0][2] % 3])

    def unlink(self, rows: list[Row]) -> Unlink:
        """Hours around now."""
        return Unlink(np.array(sorted({self.now_ms // HOUR_MS - how for _, how, _ in rows}), np.int64))

    # what it must have done

    def judge_state(self, command: DispatchState, result: Any) -> None:
        """The floor of all that is due."""
        self.tick = max(self.tick, command.tick)
        self.model.floor_ms = self.tick * 1000

    def judge_lease(self, command: Any, result: U8) -> None:
        """Which took effect."""
        columns = command.position.tolist(), command.attempt.tolist(), command.lease_end_ms.tolist()
        expected = [self.model.lease(p, self.term, a, e) for p, a, e in zip(*columns, strict=True)]
        assert result.tolist() == expected

    def _claims(self, command: Settle | Fail | Extend) -> list[tuple[int, tuple[int, int]]]:
        claims = zip(command.term.tolist(), command.attempt.tolist(), strict=True)
        return list(zip(command.position.tolist(), claims, strict=True))

    def _agrees(self, place: int, found: int, expected: str) -> bool:
        """Whether an answer is the model's. Rows of one command that name a message by its home and by its place at
        once, as no receipts do, may be judged in any order; so may a row for a place that the command itself made."""
        message = self.model.messages.get(self.model.home_of.get(place, -1))
        return (
            ACK[found] == expected
            or place in self.recorder.units
            or (
                message is not None
                and place == message.home != message.place
                and {ACK[found], expected} == {"acked", "stale"}
            )
        )

    def judge_settle(self, command: Settle, result: U8) -> None:
        """One answer a row."""
        for (place, claim), found in zip(self._claims(command), result.tolist(), strict=True):
            assert self._agrees(place, found, self.model.settle(place, claim))

    def judge_extend(self, command: Extend, result: U8) -> None:
        """One answer a row."""
        claims = zip(self._claims(command), command.lease_end_ms.tolist(), strict=True)
        assert [ACK[r] for r in result.tolist()] == [self.model.extend(*claim, end) for claim, end in claims]

    def judge_fail(self, command: Fail, result: U8) -> None:
        """One answer a row."""
        for row, (place, claim) in enumerate(self._claims(command)):
            due_ms = int(command.due_ms[row]) if command.fate[row] == 1 else None
            text = command.texts[row].decode()
            expected = self.model.fail(place, claim, 500, due_ms, int(command.random[row]), text)
            assert self._agrees(place, result[row], expected)

    def judge_cancel(self, command: Any, result: Any) -> None:
        """Result, attempts and prior. A row that wants another revision may be told that instead."""
        for row, home in enumerate(command.home.tolist()):
            expected = self.model.cancel(home, bool(command.doubtful[row]), int(command.revision[row]))
            prior = None if expected[2] is None else int(result.prior[row])
            found = WISH[result.result[row]]
            if found == "mismatch":
                assert command.revision[row] not in (0, self.model.messages[home].revision)
            else:
                assert (found, int(result.attempts[row]), prior) == expected

    def judge_reschedule(self, command: Reschedule, result: Any) -> None:
        """Result, due time, revision and place."""
        for row, home in enumerate(command.home.tolist()):
            wanted = int(command.due_ms[row]), int(command.revision[row]), bool(command.doubtful[row])
            expected = self.model.reschedule(home, *wanted)
            found = [int(column[row]) for column in (result.due_ms, result.revision, result.position)]
            if expected[0] in ("leased", "mismatch"):
                found[2] = expected[3]  # where it stood when its round was judged
            assert (WISH[result.result[row]], *found) == expected

    def judge_redrive(self, command: Any, result: U8) -> None:
        """Those that were dead."""
        due = command.due_ms.tolist()
        assert result.tolist() == [
            self.model.redrive(home, due_ms) for home, due_ms in zip(command.home.tolist(), due, strict=True)
        ]

    def judge_schedule(self, command: Schedule, result: Any) -> None:
        """All are new."""
        columns = result.position.tolist(), command.due_ms.tolist(), result.due_ms.tolist()
        for position, asked, due in zip(*columns, strict=True):
            assert due == max(asked, self.model.floor_ms)
            self.model.born(position, command.topics[0], due, asked)

    def judge_unlink(self, command: Unlink, result: int) -> None:
        """How many went."""
        assert result == sum([self.model.unlink(hour, self.tick) for hour in command.hour.tolist()])
        hours = {place >> 40 for place in self.model.home_of}
        assert set(self.log.store.hours()) == hours

    def judge_all(self) -> None:
        """Every message, where it stands and what its record says; every hour."""
        store = self.log.store
        for home, message in self.model.messages.items():
            at_home = self.log.state(home)
            assert at_home == (
                ENDED[message.ended]
                if message.ended
                else FORWARDED
                if message.place != home
                else LEASED
                if message.lease_end_ms is not None
                else PENDING
            )
            ended_ms = self.model.closed[home].at_ms if message.ended else None
            assert store.settled_at(home) == ended_ms
            if message.ended is None:
                assert self.log.place(home) == message.place
            if message.place not in self.model.home_of:
                continue
            record, unit = self.log.record(message.place), store.units(np.array([message.place], np.uint64))[0]
            assert (record.position, record.place, record.attempt) == (home, message.place, message.uncounted)
            assert record.asked_due_ms == message.asked_due_ms
            assert (int(unit["due_ms"]), int(unit["attempt"])) == (message.due_ms, message.before)
            assert record.extension.get("revision", 1) == message.revision
            assert record.extension.get("error") == message.error
            assert record.extension.keys() <= EXTENSION_OF_APPLY  # a field of a message has another name
        for hour in store.hours():
            assert store.unsettled(hour) == self.model.unsettled(hour)


@contextmanager
def opened(directory: Path) -> Iterator[Log]:
    """A log whose store is closed in any case: each maps a tebibyte of addresses."""
    directory.mkdir(exist_ok=True)
    log = Log(directory)
    try:
        yield log
    finally:
        log.store.close()


def replay(directory: Path, entries: Sequence[tuple[int, int, bytes]], moments: set[int], reopen_at: int) -> bytes:
    """Another node that applies the same entries: checkpoints after some, and is killed and started after one. Its
    rolling hash."""
    with opened(directory) as log:
        for at, entry in enumerate(entries[:reopen_at]):
            log.machine.apply(*entry)
            if at in moments:
                checkpoint(log)
    with opened(directory) as log:
        for entry in entries[log.machine.applied_index :]:
            log.machine.apply(*entry)
        checkpoint(log)
        return log.machine.rolling_hash


@examples(60)
@given(ENTRIES, st.sets(st.integers(0, 16)), st.sets(st.integers(0, 16)), st.integers(1, 16))
def test_messages_do_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[tuple[int, bool, dict[str, list[Row]]]],
    turns: set[int],
    moments: set[int],
    reopen_at: int,
) -> None:
    """Every result is the model's, and so is every message in the end; another node that turned no wheel, checkpointed
    at other moments and was killed once has the same bytes."""
    base = tmp_path_factory.mktemp("messages")
    with opened(base / "a") as log:
        trial = Trial(log)
        for at, (step, next_term, kinds) in enumerate(entries):
            if at in turns:
                log.store.turn(trial.now_ms // HOUR_MS)
            trial.step(STEPS_MS[step], next_term, kinds)
        trial.judge_all()
        checkpoint(log)
    assert log.machine.rolling_hash == replay(base / "b", log.entries, moments, reopen_at)
    assert files(base / "a") == files(base / "b")
    assert digest(base / "a") == digest(base / "b")
    assert verify(base / "b").faults == []
