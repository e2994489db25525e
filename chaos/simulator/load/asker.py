"""Clients that ask about messages, and change them, at the moments when a true answer is hardest. Such moments are
around retries and the ends of leases, after changes of leader, and while a request that needs several entries is under
way.

The history gets their answers unchanged. chaos/check/message/answers.py compares them with the truth.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

import msgspec

from api.port.port import ANONYMOUS
from api.port.queries import OperationIn
from chaos.client.account import Accounts
from chaos.client.changer import AROUND_MS, Changer
from chaos.client.client import Many, Offer
from chaos.client.whole_batches import WholeBatches
from chaos.client.wishes import Wishes
from chaos.history.event import (
    Answered,
    Begun,
    Ended,
    Event,
    Fault,
    Kept,
    Nacked,
    Offered,
    Promoted,
    Redriven,
    Rescheduled,
)
from chaos.history.history import History
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.load.client import TIMEOUT_S, caller_of, request_of
from chaos.simulator.load.load import IDLE, POISON, PULL, PUSH, STRICT, STRICT_PULL, STRICT_PUSH
from chaos.simulator.load.tally import Tally
from chaos.simulator.world.world import World
from storage.format.schedule_status import KEPT

#: Shares of the acknowledged messages that are looked at, moved or cancelled, at some moment around or after their due
#: time.
LOOK_SHARE: Final = 0.15
MOVE_SHARE: Final = 0.1
CANCEL_SHARE: Final = 0.05
AFTER_MS: Final = 4_000
#: A message that is due farther ahead is not chosen.
FAR_MS: Final = 60_000
#: This many of the last hand-overs are remembered. When a leader begins, up to AT_CHANGES messages of the last
#: LATELY_MS are asked about or changed, within SOON_S or LATER_S.
LATELY: Final = 12
LATELY_MS: Final = 2_000
AT_CHANGES: Final = 8
SOON_S: Final = 0.4
LATER_S: Final = 3.0
#: When a leader ends, this share of the messages that it handed over in its last LAST_MS is cancelled within
#: NO_LEADER_S. So no node leads yet, and the next leader gets the request before it hands the message over again.
LAST_MS: Final = 200
LAST_SHARE: Final = 0.5
NO_LEADER_S: Final = 1.0
LEADER_ENDS: Final = ("catch", "kill", "power")
#: A message is new if it was acknowledged less than this before its hand-over. When a leader begins, NEW_SHARE of the
#: new ones are cancelled within AT_ONCE_S, and WAITING_AT_CHANGES of those that no consumer pulls (IDLE) a little
#: later.
NEW_MS: Final = 300
NEW_SHARE: Final = 0.6
AT_ONCE_S: Final = 0.1
WAITING_AT_CHANGES: Final = 2
#: The share of moved or given-back messages that are looked at, and the share of moved ones that are scheduled again
#: under their key.
AGAIN_SHARE: Final = 0.4
KEY_SHARE: Final = 0.3
#: The share of failed or given-back messages that are moved or cancelled before they come again.
MEANWHILE_SHARE: Final = 0.3
#: The average time between two redrives, and the least time after one of unknown outcome, which may still be under way.
REDRIVE_S: Final = 15.0
UNKNOWN_S: Final = 2 * TIMEOUT_S
#: Faults that end a term: a redrive begins this shortly before or after.
ENDS_TERM: Final = ("transfer", "kill", "stop", "power", "drain")
BEFORE_S: Final = 0.015
#: This many messages are asked about at the end, AT_ONCE at a time.
ACCOUNTED: Final = 100
AT_ONCE: Final = 2


class Asker:
    """The asker of a run. Only a run whose plan has `skew` (clocks apart) has one. It hears every event of the history,
    and asks and changes at moments that follow from the events."""

    def __init__(self, world: World, history: History, changer: Changer, plan: FaultPlan) -> None:
        self._world, self._history, self._changer, self._plan = world, history, changer, plan
        self._caller = caller_of(world, "asker")
        self._runner, self._chance = self._caller.runner, self._caller.chance
        self._accounts = Accounts(self._caller, history)
        self._offers: dict[int, Offered] = {}
        self._lately: deque[Begun] = deque(maxlen=LATELY)
        self._by_id: dict[str, Answered] = {}
        self._known: dict[int, Answered] = {}
        self._waiting: set[int] = set()
        self._redrives_from_s = 0.0
        self._redriving_ms: float | None = None  # when the redrive that is under way was asked for
        self._tally = Tally(world, history)
        topics = (PULL, PUSH, STRICT_PULL, POISON, STRICT_PUSH)
        self.wishes = Wishes(caller_of(world, "wishes"), history, topics, STRICT)
        batches = caller_of(world, "whole batches")
        self.batches = WholeBatches(batches, history, topics, STRICT, lambda: world.leaps)
        self._over = True
        # Where all clocks jump together, the retention of a key may pass: then the request would make another message.
        self._keys = not any(fault.kind == "jump" and fault.target == "*" for fault in plan.faults)
        history.listen(self._see)

    @property
    def in_flight(self) -> int:
        """How many questions of `account` have no answer yet."""
        return self._accounts.in_flight + self._tally.in_flight

    def begin(self) -> None:
        """Begin to ask about messages, to change them, to redrive and to count. Call it when the load begins."""
        self._over = False
        for fault in self._plan.faults:
            if fault.kind in ENDS_TERM:
                at_s = fault.at_s - BEFORE_S + 1.5 * BEFORE_S * self._chance.random()
                self._runner.after(max(0.0, at_s), self._redrive)
        self._runner.start(self._now_and_then())
        self._tally.begin()
        self.wishes.begin()
        self.batches.begin()

    def end(self) -> None:
        """Stop asking about messages and changing them. Call it when the load ends. Only `account` asks after that."""
        self._over = True
        self._end_redrive("unknown", 0, "")
        self._tally.end()
        self.wishes.end()
        self.batches.end()

    # -- when

    def _see(self, event: Event) -> None:
        if isinstance(event, Offered):
            self._offers[event.number] = event
        if isinstance(event, Answered) and event.outcome == "acknowledged":
            self._known[event.number] = self._by_id[event.message_id] = event
            if self._offers[event.number].topic == IDLE:
                self._waiting.add(event.number)
        if isinstance(event, Begun) and event.message_id in self._by_id:
            self._lately.append(event)
        if self._over:
            return
        if isinstance(event, Answered) and event.outcome == "acknowledged":
            self._choose(event)
        elif isinstance(event, Promoted):
            self._leader_begins()
        elif isinstance(event, Fault) and event.role == "leader" and event.phase == "begin":
            if event.kind in LEADER_ENDS:
                self._leader_ends()
        elif isinstance(event, Ended) and event.message_id in self._by_id:
            self._meanwhile(self._by_id[event.message_id])
        elif isinstance(event, Rescheduled | Nacked) and event.number in self._known:
            message = self._known[event.number]
            if self._chance.random() < AGAIN_SHARE:
                self._runner.after(SOON_S * self._chance.random(), self._look, message)
            if isinstance(event, Nacked):
                self._meanwhile(message)
            elif event.outcome == "moved" and self._chance.random() < KEY_SHARE:
                self._runner.after(SOON_S * self._chance.random(), self._keep, message)

    def _leader_begins(self) -> None:
        """Ask about messages that may be in doubt, or cancel or move them. These are some that were handed over last,
        and some that wait for a consumer. A message that was new at its hand-over is mostly cancelled."""
        for message, is_new in self._handed_over_lately():
            ask = self._chance.choice([self._look, self._changer.cancel, self._changer.cancel, self._changer.move])
            within_s = self._chance.choice([SOON_S, SOON_S, LATER_S])
            if is_new and self._chance.random() < NEW_SHARE:
                ask, within_s = self._changer.cancel, AT_ONCE_S
            self._runner.after(within_s * self._chance.random() ** 2, ask, message)
        waiting = [self._known[number] for number in sorted(self._waiting)]
        for message in self._chance.sample(waiting, min(WAITING_AT_CHANGES, len(waiting))):
            self._waiting.discard(message.number)
            self._runner.after(LATER_S * self._chance.random(), self._changer.cancel, message)

    def _leader_ends(self) -> None:
        """Cancel a share of the messages that were handed over within LAST_MS before now, perhaps without a record in
        the log."""
        since_ms = self._history.now()[0] - LAST_MS
        names = sorted({begun.message_id for begun in self._lately if begun.mono_ms > since_ms})
        for name in names:
            if self._chance.random() < LAST_SHARE:
                self._runner.after(NO_LEADER_S * self._chance.random(), self._changer.cancel, self._by_id[name])

    def _meanwhile(self, message: Answered) -> None:
        """Change a message whose last hand-over failed, while it waits for another one."""
        if self._chance.random() < MEANWHILE_SHARE:
            ask = self._chance.choice([self._changer.cancel, self._changer.move])
            self._runner.after(SOON_S * self._chance.random(), ask, message)

    def _choose(self, message: Answered) -> None:
        chance = self._chance
        if message.due_ms - message.wall_ms > FAR_MS:
            return
        for share, ask in (
            (LOOK_SHARE, self._look),
            (MOVE_SHARE, self._changer.move),
            (CANCEL_SHARE, self._changer.cancel),
        ):
            if chance.random() < share:
                around_ms = chance.randint(-AROUND_MS, AROUND_MS)
                later_ms = around_ms if chance.random() < 0.5 else chance.randint(0, AFTER_MS)
                wait_ms = message.due_ms - message.wall_ms + later_ms
                self._runner.after(max(0, wait_ms) / 1000, ask, message)

    def _handed_over_lately(self) -> list[tuple[Answered, bool]]:
        """Some messages whose hand-over may have left no record, each with True if it was acknowledged within NEW_MS
        before that hand-over."""
        since_ms = self._history.now()[0] - LATELY_MS
        begun_ms = {begun.message_id: begun.mono_ms for begun in self._lately if begun.mono_ms > since_ms}
        names = self._chance.sample(sorted(begun_ms), min(AT_CHANGES, len(begun_ms)))
        messages = [self._by_id[name] for name in names]
        return [(each, begun_ms[each.message_id] < each.mono_ms + NEW_MS) for each in messages]

    # -- GET, and a request under a key that exists

    async def _look(self, message: Answered) -> None:
        if not self._over:
            await self._accounts.look(message)

    async def _keep(self, message: Answered) -> None:
        offered = self._offers[message.number]
        if self._over or not self._keys or not offered.keyed:
            return
        asked_ms = self._history.now()[1]
        first = request_of(Offer(message.number, offered.topic, offered.asked_due_ms, True))
        again = msgspec.structs.replace(first, fingerprint=bytes(16), on_conflict="keep")
        outcome = await self._caller.any().call(lambda port: port.schedule([again], ANONYMOUS), "keep")
        result = outcome.value
        if result is not None and result.status[0] == KEPT:
            self._history.record(
                Kept(
                    **self._history.stamp(),
                    number=message.number,
                    message_id=result.ids[0].decode(),
                    asked_wall_ms=asked_ms,
                    due_ms=int(result.due_ms[0]),
                )
            )

    # -- redrives

    async def _now_and_then(self) -> None:
        self._runner.start(self._redrive())
        if not self._over:
            self._runner.after(self._chance.expovariate(1 / REDRIVE_S), self._now_and_then)

    async def _redrive(self) -> None:
        """Redrive all dead messages of POISON, the topic whose receiver refuses everything. Only one redrive is under
        way at a time."""
        if self._over or self._world.now_s < self._redrives_from_s:
            return
        self._redrives_from_s = float("inf")  # until this one has ended
        self._redriving_ms, wish = self._history.now()[0], OperationIn(kind="redrive", topics=(POISON,), wait_s=0)
        outcome = await self._caller.any().begin(wish)
        kind: Literal["done", "refused", "unknown"] = "done" if outcome.kind == "ok" else outcome.kind
        changed = 0
        if outcome.value is not None:
            ended = await self._end_of(outcome.value.name)
            kind, changed = ("unknown", 0) if ended is None else ("done", ended.changed)
        elif kind == "unknown":
            await self._runner.sleep(UNKNOWN_S)
            await self._none_runs()
        self._redrives_from_s = self._world.now_s + 1.0
        self._end_redrive(kind, changed, outcome.code)

    def _end_redrive(self, kind: Literal["done", "refused", "unknown"], changed: int, detail: str) -> None:
        """Record the redrive that is under way, if there is one. One at the end of the load counts as unknown (seed
        4359)."""
        asked_ms, self._redriving_ms = self._redriving_ms, None
        if asked_ms is not None:
            self._history.record(
                Redriven(
                    **self._history.stamp(), topic=POISON, asked_mono_ms=asked_ms, outcome=kind, changed=changed,
                    detail=detail,
                )
            )  # fmt: skip

    async def _end_of(self, name: str) -> Many | None:
        """An operation once it has ended. None if nobody says so before the load ends."""
        while not self._over:
            outcome = await self._caller.any().operation(name)
            if outcome.value is not None and outcome.value.ended:
                return outcome.value
            await self._caller.pause()
        return None

    async def _none_runs(self) -> None:
        """Wait until no redrive runs, or the load ends. One of unknown outcome goes on under the next leader."""
        while not self._over:
            outcome = await self._caller.any().running("redrive")
            if outcome.value == 0:
                return
            await self._caller.pause()

    # -- the end

    def account(self) -> None:
        """Begin the questions at the end: the ledger's sums, and GET and the ledger about some messages. `in_flight` is
        0 once all are answered."""
        self._tally.sum_up()
        known = [self._known[number] for number in sorted(self._known)]
        self._accounts.begin(self._chance.sample(known, min(ACCOUNTED, len(known))), AT_ONCE)
