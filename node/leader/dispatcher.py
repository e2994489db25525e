"""The leader's loop: due units go from the wheel to the ready windows, and from there to consumers.

`step` does all that is due and returns how long to sleep. The other methods tell the dispatcher of something that
happened, or ask it for something:

    machine  -- on_units, on_leased, on_settled, on_topic -->  Dispatcher  -- handing_over -->  consumers
    proposer -- collect, committed, returned ------------->        |
                                                                   v
                          step: wheel -> windows, ended leases -> windows, backlog -> windows, dispatch state

Three things are kept apart.

- *Dispatch* moves a due unit from its slot to ready. The dispatch state says how far that came. A strict push that is
  leased ahead (handover/lease_ahead.py) counts as dispatched at its due time. It becomes ready only if its lease is
  taken back.
- *Hand-over* takes a unit from ready under a lease, at once (fast mode), within the 50 ms that a crash may repeat.
- *Ready* is decided by the settle records alone. Windows, wheel and backlog are ways to find ready units. Every unit is
  checked against its settle record when it is handed over. So a unit that ended meanwhile never goes out. A unit that
  memory has lost is found when the settle records are read again.

Pure: it is given the time, the node clock's milliseconds rounded down. If the clock goes back, units that are not due
by the new time do not go out. Only a leader has a dispatcher. A new term makes a new one, and `stop` drops everything
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from node.handover.attempt_limit import AttemptLimit
from node.handover.handing_over import HandingOver
from node.handover.lease_book import HandOver, LeaseBook
from node.leader.backlog import BacklogReader, within_topics
from node.ready.claimed_units import ClaimedUnits
from node.ready.lease_timetable import LeaseTimetable
from node.ready.rule import Rule
from node.ready.topic_window import Queued
from node.ready.windows import Ready
from node.write.leader_commands import NOTHING_RIDES, LeaderCommands
from replication.command.dispatch import DispatchState, Realign
from storage.format.array import I64, U8, U16, U32, U64
from storage.format.position import HOUR_MS
from storage.format.states import IS_OPEN, LEASED
from storage.store import Store
from storage.tables.topic import subscription_of, subscriptions_of, topic_of
from storage.wheel.hour_wheel import AHEAD, HourWheel
from storage.wheel.second_wheel import SecondWheel
from storage.wheel.slot import DueUnits

REALIGN_MS = 500
"""If the replicated tick is ahead of the clock by up to this, the leader sleeps until the clock has reached it. If it
is farther ahead, a Realign sets it back."""

CLOCK_BACK_MS = 10
"""While the clock is behind its latest time, the dispatcher looks this often for units that are due by it."""


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """How a leader dispatches. Times are in milliseconds, windows in units."""

    stop_ms: int = 50  # Hand-overs that a crash may repeat, because their Leases are not committed, lie within this.
    beat_ms: int = 20  # A Lease waits at most this long for an entry. Less than stop_ms, or hand-overs would stop.
    state_ms: int = 50  # how often the dispatch state goes out while it changes
    window_per_topic: int = 200_000  # ready units in memory, 24 bytes each
    window_total: int = 2_000_000
    pace_per_step: int = 1_000  # overdue units that consumers may take per handing_over.PACE_MS: 100,000 a second
    inline_reads: bool = True  # `step` reads slots itself; if False, the caller reads those of `loads` (see there)


class Dispatcher:
    """Dispatches the units of one term as leader: it brings them into the windows, from which `handing_over` hands them
    over. All calls come from the event loop's thread. They block it only to read a slot or a piece of an hour from the
    page cache."""

    def __init__(
        self,
        store: Store,
        *,
        term: int,
        options: DispatchOptions | None = None,
        attempts: AttemptLimit | None = None,
        rules: Sequence[Rule] = (),
    ) -> None:
        self.term = term
        self._store, self._rules = store, rules
        self._options = options or DispatchOptions()
        self._claims = ClaimedUnits()
        self._ends = LeaseTimetable()
        self._book = LeaseBook(stop_ms=self._options.stop_ms, beat_ms=self._options.beat_ms)
        self._ready = Ready(
            self._claims,
            per_topic=self._options.window_per_topic,
            total=self._options.window_total,
            exists=lambda subscription: store.catalog.topic_by_number(topic_of(subscription)) is not None,
        )
        self.handing_over = HandingOver(
            store,
            self._book,
            self._claims,
            self._ready,
            term=term,
            attempts=attempts,
            pace_per_step=self._options.pace_per_step,
            rules=rules,
        )
        self._lease_ahead = self.handing_over.lease_ahead
        self._wheel: SecondWheel | None = None  # None: not begun (a Realign is on its way), or stopped
        self._stopped = False
        self._wanted_from_ms = 0
        self._state = self._proposed = DispatchState(0, 0, 0)  # of the last step, of the last collect

    # -- beginning and end

    def promote(self, now_ms: int, tick: int) -> Realign | None:
        """Begin to lead, when all committed entries are applied. `tick` is the replicated one. Nothing is read yet: the
        steps that follow read the hours.

        If the tick is more than REALIGN_MS ahead of the clock, return the Realign to propose. The dispatcher then
        begins when `realigned` is called. If the tick is ahead by less, the leader sleeps until the clock has reached
        it. If it is behind, it jumps to the clock, and overdue units go out at a bounded pace.
        """
        assert self._wheel is None, "promoted twice"
        for topic in self._store.catalog.topics_with_settings():
            self.on_topic(topic.number, topic.settings)
        if tick * 1000 - now_ms > REALIGN_MS:
            return Realign(tick=now_ms // 1000, now_ms=now_ms, applied_index=self._store.applied_index)
        self._begin(max(now_ms, tick * 1000), tick)
        return None

    def realigned(self, now_ms: int) -> None:
        """Begin, because the Realign is applied."""
        if not self._stopped:
            self._begin(now_ms, now_ms // 1000)

    def _begin(self, start_ms: int, tick: int) -> None:
        """Start the wheel, which gives out the units due after `start_ms`. The backlog reader finds units ready by
        then."""
        # _now_ms is the time of the last step. All units due by _latest_ms are dispatched.
        self._start_ms = self._now_ms = self._latest_ms = start_ms
        wheel = self._start_wheels(start_ms)
        self._hours.turn(start_ms)
        self._backlog = BacklogReader(
            self._store, self._ready, self._claims, self._ends, self._rules, start_ms=start_ms, term=self.term
        )
        self._backlog.wanted_from_ms = self._wanted_from_ms
        # A dead leader whose clock was ahead may have leased units of the hour after ours.
        self._noted_hour = max(start_ms // HOUR_MS, tick // 3600) + 1
        self._backlog.promote(self._noted_hour)
        self._note_leases(start_ms)
        self.handing_over.open(start_ms)
        self._merged = self._store.applied_index  # the wheel or the backlog reader has all units of entries up to it
        self._state = DispatchState(*wheel.state, self._merged)
        self._state_moved = True  # the state jumps to the clock
        self._state_waits = False  # units were dispatched that it does not name yet
        self._proposed_ms = start_ms

    def _start_wheels(self, start_ms: int) -> SecondWheel:
        """Make new wheels, which give the units due after `start_ms`. No hour is near yet."""
        self._wheel = wheel = SecondWheel(start_ms=start_ms)
        self._hours = HourWheel(self._store, wheel, start_ms=start_ms)
        self._to_load: list[int] = []
        return wheel

    def want_from(self, due_ms: int) -> None:
        """Keep units due before `due_ms` (at most the promotion's time) out of the windows. 0: read them after all."""
        self._wanted_from_ms = due_ms
        if self._wheel is not None:
            self._backlog.wanted_from_ms = due_ms
            if not due_ms:
                self._backlog.promote(self._noted_hour)

    def stop(self) -> None:
        """Stop for good: leadership is lost. From now on nothing is ready, handed over or proposed."""
        self._stopped = True
        self._wheel = None
        self.handing_over.close()

    # -- the loop

    def step(self, now_ms: int) -> int | None:
        """Do all that is due. Return for how many milliseconds there is nothing more to do, or None to sleep until
        another method is called. 0 means that a long job has more pieces, and that other work of the event loop may go
        between them."""
        if self._wheel is None:
            return None
        if now_ms < self._start_ms:
            return self._start_ms - now_ms  # the replicated tick is ahead of this clock: sleep until they meet
        self._now_ms = now_ms
        if self._wheel.leaps(now_ms):
            self._take(now_ms)
            self._begin_anew(now_ms)
        if self._hours.turn(now_ms):
            self._claims.sweep()
            self._note_leases(now_ms)
            self._state_moved = True
        self._load(now_ms)
        taken = self._take(now_ms)
        self._lease_ahead.look(self._wheel, now_ms)
        self._advance(now_ms, moved=taken > 0)
        self._backlog.ended(self._ends.ended(now_ms))
        # Also while the clock has gone back: units ready by then stand in the windows until they are due again.
        more = self._backlog.piece(self._latest_ms)
        self.handing_over.turn(now_ms)
        return self._wait(now_ms, more)

    def _take(self, now_ms: int) -> int:
        """Move due units from the wheel to the windows, or to the backlog reader if they have too many topics for one
        step. Return the number of units that the wheel gave."""
        assert self._wheel is not None
        taken = self._wheel.take(now_ms)
        due = self._lease_ahead.unplanned(taken)
        count = within_topics(due.topic)
        if count < len(due):
            self._backlog.due(due.select(slice(count, None)))
            due = due.select(slice(count))
        units = Queued.of(due.position, due.tags, due.due_ms)
        self._ready.push_both(due.due_ms <= self._start_ms, subscriptions_of(due.topic), units, swept=False)
        return len(taken)

    def _begin_anew(self, now_ms: int) -> None:
        """Make new wheels, because the clock has moved on by more than one step may read. The backlog reader reads the
        units that became due meanwhile, a piece at a time, as after a promotion. The caller has taken the due units out
        of the old wheel."""
        assert self._wheel is not None
        first_hour, now_hour = self._wheel.state[0] * 1000 // HOUR_MS, now_ms // HOUR_MS
        self._start_wheels(now_ms)
        self._backlog.leaped(first_hour, now_hour)
        self._state_waits = True
        self._noted_hour = max(self._noted_hour, now_hour)  # the backlog reader finds the leases of these hours

    def _note_leases(self, now_ms: int) -> None:
        """Let the backlog reader find out when leases end in the hours that have become near. A former leader whose
        clock was hours ahead may have leased units of any hour. The wheel reads only pending units, so it does not find
        these leases."""
        last_hour = now_ms // HOUR_MS + AHEAD
        self._backlog.note(self._store.open_hours(self._noted_hour + 1, last_hour))
        self._noted_hour = max(self._noted_hour, last_hour)

    def loads(self, now_ms: int) -> list[int]:
        """Return the seconds (Unix time) whose slots are to be read now with `store.second`, in any thread. After each
        read the caller calls `loaded`, and then `step`. If `inline_reads` is off, call this after every step."""
        if self._wheel is None:
            return []
        ticks, self._to_load = [*self._to_load, *self._wheel.loads(now_ms)], []
        return ticks

    def loaded(self, tick: int, slot: DueUnits) -> None:
        """Take the slot of a second that `loads` returned. Units that were applied since the read began may be
        missing."""
        if self._wheel is not None:
            self._wheel.load(tick, slot)

    def _load(self, now_ms: int) -> None:
        """Read slots here if `inline_reads` is on: all slots that are due within a second, and one slot that is due
        later."""
        assert self._wheel is not None
        self._to_load += self._wheel.loads(now_ms)
        if self._options.inline_reads:
            urgent = now_ms // 1000 + 1
            while self._to_load:
                tick = self._to_load.pop(0)
                self._wheel.load(tick, self._store.second(tick))
                if tick > urgent:
                    break

    def _advance(self, now_ms: int, *, moved: bool) -> None:
        """Advance the dispatch state to what the wheel gave out, unless due units are still to be read. `moved`: it
        gave out units in this step."""
        assert self._wheel is not None
        self._latest_ms = max(self._latest_ms, now_ms)
        self._state_waits |= moved
        if self._wheel.exact and not self._backlog.reads_due:
            self._state = DispatchState(*self._wheel.state, self._merged)
            self._state_moved |= self._state_waits
            self._state_waits = False

    def _wait(self, now_ms: int, more: bool) -> int:
        assert self._wheel is not None
        if more or (self._to_load and self._options.inline_reads):
            return 0
        wakes = [
            self._hours.wake_ms(now_ms), self._wheel.wake_ms(now_ms), self._ends.next_ms(), self.handing_over.wake_ms(),
            self._lease_ahead.wake_ms(self._wheel, now_ms),
        ]  # fmt: skip
        if now_ms < self._latest_ms:
            wakes.append(min(self._latest_ms, now_ms + CLOCK_BACK_MS))
        return max(0, min(wake for wake in wakes if wake is not None) - now_ms)

    # -- commands for entries

    def entry_due_ms(self) -> int | None:
        """When an entry must be proposed for the Leases and the dispatch state, even if no other command waits. None if
        neither waits for an entry."""
        if self._wheel is None:
            return None
        state_due_ms = self._proposed_ms + self._options.state_ms if self._state_moved else None
        return min((due for due in (self._book.due_ms, state_due_ms) if due is not None), default=None)

    def collect(self, now_ms: int, *, going: bool = True) -> LeaderCommands:
        """Return the commands for the entry that is put together, each once. They are the Leases and Releases that are
        in no entry yet, and the dispatch state if it moved.

        `going` says that the entry is made in any case. If it is False, commands are returned only when `entry_due_ms`
        has come.
        """
        due_ms = self.entry_due_ms()
        if self._wheel is None or not (going or (due_ms is not None and due_ms <= now_ms)):
            return NOTHING_RIDES
        self._state_moved = False
        state, before = self._state, self._proposed
        if (state.tick, state.local_index) == (before.tick, before.local_index):
            return self._book.collect()
        self._proposed, self._proposed_ms = state, now_ms
        return self._book.collect()._replace(state=state)

    def committed(self) -> list[HandOver]:
        """Note that the entry with the oldest collected Leases is applied, so the settle records have them. Return its
        strict hand-overs, which may begin now (node/handover/strict.py)."""
        if self._wheel is None:
            return []
        hand_overs = self._book.committed()
        for hand_over in hand_overs:
            self._claims.free(hand_over.position)
            states = self._store.states(hand_over.position)
            leased = states.state == LEASED
            ours = leased & (states.term == self.term) & (states.attempt == hand_over.attempt)
            # `stray` units are open, but their Lease had no effect or ended before it was applied. When that lease
            # ended, the unit was still claimed, and so it was not found. Look for it again when its settle record says
            # that it is ready. `runs` asks the present clock: after it went back, a lease may end before _latest_ms.
            runs = ours & (states.lease_end_ms > self._now_ms)
            stray = IS_OPEN[states.state] & ~runs
            if stray.any():
                self._ends.add(hand_over.position[stray & leased], states.lease_end_ms[stray & leased], self._latest_ms)
                self._backlog.again(hand_over.position[stray & ~leased])
            if hand_over.strict and not runs.all():
                self.handing_over.strict.failed(hand_over.select(~runs))
        return [hand_over for hand_over in hand_overs if hand_over.strict]

    def returned(self) -> None:
        """Keep the commands that `collect` gave last for the next entry. Their entry was never proposed."""
        if self._wheel is not None:
            self._book.returned()

    def level(self, now_ms: int) -> bool:
        """True if the units due now are in the windows, as of the last step. Then the wheel has begun and no due slot
        is still being read."""
        begun = self._wheel is not None and now_ms >= self._start_ms
        return begun and self._state.tick >= now_ms // 1000

    def dispatch_state(self) -> DispatchState:
        """The dispatch state as of the last step. It covers the units of entries up to `applied_index`. Units in slots
        before `tick` and the first `local_index` of slot `tick` are dispatched, or the backlog reader finds them."""
        return self._state

    # -- calls of the state machine for what it applied, in the order of the Raft log

    def on_units(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """Take new units: those of near hours into the wheel. Others are read when their hour becomes near."""
        if self._wheel is not None:
            self._wheel.arrive(due_ms, position, topic, tags, priority)
            self._merged = applied_index

    def on_leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Note when these leases end, because their Leases took effect. The units are looked for at that time."""
        if self._wheel is not None:
            self._ends.add(position, lease_end_ms, self._latest_ms)

    def on_released(self, position: U64) -> None:
        """Take units whose lease ahead was taken back: into the wheel, or to the backlog reader if they are due."""
        if self._wheel is not None:
            units = self._store.units(position)
            later = units["due_ms"] > self._latest_ms
            rows = np.flatnonzero(later)[np.argsort(position[later])]
            wheel = units[rows]
            self._wheel.arrive(wheel["due_ms"], position[rows], wheel["topic"], wheel["tags"], wheel["priority"])
            self._backlog.again(position[~later])

    def on_moved(self, home: U64, old: U64, position: U64) -> None:
        """Note that messages stand at `position` now and stood at `old`. The check at hand-over leaves the old
        positions out, and `on_units` brings the new ones."""
        self.handing_over.moved(home, old, position)
        self.handing_over.staged.note_ended(old)

    def on_settled(self, position: U64) -> None:
        """Note units that ended. Where they still stand in wheel or window, the check at hand-over leaves them out."""
        self.handing_over.staged.note_ended(position)

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """Note that a topic was created or removed, or its settings changed."""
        subscription, paused = subscription_of(number), settings.get("paused", False)
        self.handing_over.pause(subscription, paused)
        self._ready.set_pushed(subscription, settings.get("mode") == "push" and not paused)
        self.handing_over.strict.on_settings(subscription, settings)
        if self._store.catalog.topic_by_number(number) is None:
            self._ready.drop(subscription)
