"""The random cluster's strict hand-overs: leased, and made when the Lease is committed and their time has come."""

from __future__ import annotations

import numpy as np

from node.handover.lease_book import HandOver
from replication.command.message import Cancel
from replication.command.topic import PutTopic
from storage.format.array import U64
from tests.node.model_log import TOPICS, LoggedModel


class StrictModel(LoggedModel):
    """What a leader does in strict topics, each hand-over judged when it begins."""

    strict = 0  # units handed over once their Lease was committed
    early = 0  # units planned before they were due
    leased_ahead = 0  # units leased that way

    def change_mode(self) -> None:
        """A topic becomes strict, pushed perhaps, or fast, while messages are in flight."""
        name = self.random.choice(TOPICS)
        strict = self.random.random() < 0.6
        settings = {"handover": "strict" if strict else "fast", "mode": self.random.choice(["push", "push", "pull"])}
        if strict:
            self.leader_term.dispatcher.handing_over.strict.expect(self.numbers[name])
        self.queue.append(PutTopic("default", name, settings, replace=False))

    def plan(self) -> None:
        """Units for push are staged before they are due, and planned, or given back."""
        name = self.random.choice(TOPICS)
        dispatcher, number = self.leader_term.dispatcher, self.numbers[name]
        self.leader_term.staged[name] += dispatcher.handing_over.lease_ahead.stage(number, 30, self.now_ms).tolist()
        if number not in dispatcher.handing_over.strict.subscriptions:
            return
        chosen, trusted = self._some_staged(name), self.random.random() < 0.8
        planned = dispatcher.handing_over.plan(number, chosen, self._lease_ms(), self.now_ms, trusted=trusted)
        self.leader_term.staged[name] += planned.left.tolist()
        assert trusted or not planned.hand_overs
        for made in planned.hand_overs:
            self.add_leased_ahead(name, made)
            self.early += int(np.count_nonzero(made.due_ms > self.now_ms))

    def add_leased_ahead(self, topic: str, made: HandOver) -> HandOver:
        """Leased, and not handed over: that is judged when it begins. Nothing that runs or has ended is leased."""
        self.leased_ahead += len(made)
        for position in made.position.tolist():
            unit = self.book.units[position]
            assert unit.open_at(max(self.now_ms, unit.due_ms)), f"{position} is leased ahead at {self.now_ms}: {unit}"
            assert made.planned or unit.due_ms <= self.now_ms
            assert unit.topic == topic
        return made.select(slice(0))

    def begin(self) -> None:
        """Strict hand-overs whose Leases are committed are made at their time, or given up."""
        for _ in range(len(self.leader_term.leased_ahead)):
            made = self.leader_term.leased_ahead.pop(0)
            if made.planned and made.handed_over_ms > self.now_ms:
                self.leader_term.leased_ahead.append(made)
            elif self.random.random() < 0.8 and self.now_ms < made.lease_end_ms:
                self._begin(made)
            else:
                self.leader_term.dispatcher.handing_over.strict.withdraw(made)

    def _begin(self, made: HandOver) -> None:
        now_ms, strict = self.now_ms, self.leader_term.dispatcher.handing_over.strict
        begun = strict.begin(made, now_ms)
        strict.withdraw(made)
        assert begun.handed_over_ms == now_ms
        for position, attempt in zip(begun.position.tolist(), begun.attempt.tolist(), strict=True):
            unit = self.book.units[position]
            assert unit.due_ms <= now_ms, f"{position} goes out early at {now_ms}: {unit}"
            assert unit.leased, f"{position} goes out without a lease: {unit}"
            assert not unit.settled, f"{position} has ended: {unit}"
            assert (unit.attempt, unit.lease_end_ms) == (attempt, made.lease_end_ms), f"{position}: {unit}, {made}"
            assert not {position, unit.home} & self.held, f"{position} of {unit.home} is held"
            assert (self.leader_term.term, attempt) > unit.seen, f"{position}: attempt {attempt} after {unit.seen}"
            unit.seen = self.leader_term.term, attempt
            unit.strict_until_ms = made.lease_end_ms
        self.strict += len(begun)
        if len(begun):
            self.leader_term.hand_overs.append(begun)

    def race(self) -> None:
        """Messages that are leased and not handed over are cancelled, at the moment when their hand-overs begin."""
        self.plan()
        self.settle_flight()
        for made in self.leader_term.leased_ahead:
            self._cancel(list({self.book.units[position].home for position in made.position.tolist()}))
        if self.random.random() < 0.5:
            self.propose()
        self.begin()

    def _cancel(self, homes: list[int]) -> None:
        self._hold(homes)
        self.queue.append(Cancel(np.array(homes, np.uint64), np.zeros(len(homes), np.uint8)))

    def _hold(self, names: list[int]) -> None:
        self.leader_term.dispatcher.handing_over.hold(names)
        self.holding += names

    def give_up_leadership(self) -> None:
        """Nothing that is planned or leased and not made is handed over here any more."""
        self.leader_term.dispatcher.handing_over.strict.withdraw_all()
        before = self.strict
        self.begin()
        assert self.strict == before

    def _some_staged(self, topic: str) -> U64:
        staged = self.leader_term.staged[topic]
        chosen = self.random.sample(staged, self.random.randint(0, len(staged)))
        self.leader_term.staged[topic] = [position for position in staged if position not in set(chosen)]
        return np.array(chosen, np.uint64)

    def _lease_ms(self) -> int:
        return self.random.choice([1_000, 3_000, 30_000, 100_000])
