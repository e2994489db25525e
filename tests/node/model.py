"""A random cluster in virtual time: what clients and the leader's loop do, and what must hold (see model_log.py).

What can happen: messages with tags, cancels, reschedules, pulls with and without filters, pushes that stage units and
hand them over later or give them back, acks, failures that move messages or end them, redrives, limits of attempts,
pauses, commits that take 1 to 300 ms, checkpoints, restarts, leaders that die, and clocks that go back a little.

The model keeps its own book of what the log says of each unit (tests/node/book.py), and judges every hand-over and
every dispatch state against it: `Model.check_hand_over`, `check_state`, `check_complete`, `check_claims`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from node.handover.lease_book import HandOver
from replication.command.dispatch import DispatchState
from replication.command.handover import DEAD, RETRY, Fail, Settle
from replication.command.message import Redrive, Reschedule
from replication.command.topic import PutTopic
from storage.format.array import U16, U32, U64
from storage.format.predicate import TagFilter
from tests.node.book import RecordingWheel
from tests.node.model_log import STOP_MS, TOPICS, SeenTerm
from tests.node.model_strict import StrictModel
from tests.node.one_leader import HOUR_MS, messages

GRID_MS = 1_000  # a lease that ended is found at the latest this long after
TAGS: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("eu",),
    ("us",),
    ("eu", "us"),
    ("tag-151",),
    ("tag-281",),
    ("tag-4", "tag-173"),
)
GROUPS = (
    [["eu"]],
    [["eu", "us"], ["tag-281"]],
    [["tag-151"]],
    [["us"], ["eu"]],
)  # 151 and 281 collide, 4 + 173 with eu


class Model(StrictModel):
    """`run` plays a history; every check raises AssertionError."""

    filtered = 0  # units that filtered pulls took
    pushed = 0  # units handed over after staging
    ended = 0  # units that were over their limit
    _judged: tuple[SeenTerm, DispatchState] | None = None  # the last state that was judged

    def busy(self) -> None:
        """Hand-overs in quick succession."""
        self.step()
        self.pull()
        self.stage()
        self.send()
        self.plan()
        self.begin()

    def burst(self) -> None:
        """Everything that takes units at one moment, messages that are due now among them; the clock may go back."""
        self.schedule()
        for _ in range(3):
            self.settle_flight() if self.random.random() < 0.5 else self.commit()
            self.busy()
            if self.random.random() < 0.2:
                self.wobble()

    # -- what clients do

    def schedule(self) -> None:
        """Up to 40 messages, due at a few interesting times."""
        tags = tuple(self.random.choice(TAGS) for _ in range(self._few()))
        dues = [max(self.now_ms, self._due()) for _ in tags]
        self.queue.append(messages(dues, self.random.choice(TOPICS), tags))
        self.queue_tags.append(tags)

    def _due(self) -> int:
        now_ms = self.now_ms
        edges = (0, 0, 5, 60, 900, 9_990, 14_000, HOUR_MS - now_ms % HOUR_MS, HOUR_MS - now_ms % HOUR_MS + 700)
        return now_ms + self.random.choice(edges) + self.random.randint(-3, 40)

    def _few(self) -> int:
        return self.random.choice([1, 3, 40])

    def pull(self) -> HandOver:
        """One pull of some topic, with a filter or without."""
        topic, most = self.random.choice("aaaabbbbc"), self.random.choice([1, 4, 100])
        tags = TagFilter.of(self.random.choice(GROUPS)) if self.random.random() < 0.5 else None
        return self.hand_over(topic, most, self._lease_ms(), tags)

    def hand_over(self, topic: str, most: int, lease_ms: int, tags: TagFilter | None = None) -> HandOver:
        """One pull, judged."""
        dispatcher, number = self.leader_term.dispatcher, self.numbers[topic]
        found = dispatcher.handing_over.hand_over(number, most, lease_ms, self.now_ms, trusted=True, tags=tags)
        if found.strict:
            return self.add_leased_ahead(topic, found)
        self.check_hand_over(topic, found)
        if tags is not None:
            self.filtered += len(found)
            for position in found.position.tolist():
                assert tags.matches(self.book.units[position].tags), f"{position} is not what {tags.groups} wants"
            if not dispatcher.handing_over.waiting(number, tags):
                self.check_passed_over(topic, tags)
        return found

    def stage(self) -> None:
        """Units for push, of some topic."""
        topic = self.random.choice("abcccc")
        staged = self.leader_term.dispatcher.handing_over.stage(
            self.numbers[topic], self.random.choice([1, 4, 30]), self.now_ms
        )
        assert topic not in self.book.paused or not len(staged)
        self.leader_term.staged[topic] += staged.tolist()

    def send(self) -> None:
        """Some of the staged units of a topic are handed over, in any order, with or without trust."""
        topic = self.random.choice("abcccc")
        chosen, trusted = self._some_staged(topic), self.random.random() < 0.8
        hand_over, left = self.leader_term.dispatcher.handing_over.hand_over_staged(
            self.numbers[topic], chosen, self._lease_ms(), self.now_ms, trusted=trusted
        )
        assert trusted or not len(hand_over)
        assert (
            not len(hand_over)
            or self.numbers[topic] not in self.leader_term.dispatcher.handing_over.strict.subscriptions
        )
        self.pushed += len(hand_over)
        self.leader_term.staged[topic] += left.tolist()
        assert set(hand_over.position.tolist()) <= set(chosen.tolist()) - set(left.tolist())
        self.check_hand_over(topic, hand_over)

    def unstage(self) -> None:
        """Some are given back, before filters that had looked at all that was left."""
        topic = self.random.choice("abcccc")
        for given_back in (False, True):
            if given_back:
                self.leader_term.dispatcher.handing_over.unstage(self.numbers[topic], self._some_staged(topic))
            for groups in GROUPS:
                self.hand_over(topic, 2, self._lease_ms(), TagFilter.of(groups))

    def _done(self) -> tuple[U64, U32, U16] | None:
        """A hand-over of this term, committed or not."""
        if not self.leader_term.hand_overs:
            return None
        done = self.random.choice(self.leader_term.hand_overs)
        return done.position, np.full(len(done), self.leader_term.term, np.uint32), done.attempt

    def ack(self) -> None:
        """A hand-over is acked."""
        if (done := self._done()) is not None:
            self.queue.append(Settle(*done, np.zeros(len(done[0]), np.uint16)))

    def fail(self) -> None:
        """A hand-over failed: its messages are tried again later, one in eight ends. As all that moves a message it is
        held, by its place: else it could go out once more, and after the move again under the same attempt."""
        if (done := self._done()) is not None and len(done[0]):
            self._hold(done[0].tolist())
            fails = [self.random.choice([DEAD, *[RETRY] * 7]) for _ in done[0]]
            self._fail(*done, fails)
            if self.random.random() < 0.5:  # and a client wants them gone meanwhile
                self.propose()
                self._cancel(list({self.book.units[position].home for position in done[0].tolist()}))

    def _fail(self, position: U64, term: U32, attempt: U16, fails: list[int]) -> None:
        n = len(position)
        due_ms = np.array([self._due() if fate == RETRY else 0 for fate in fails], np.int64)
        random = np.ones(n, np.uint64)
        code = np.full(n, 500, np.uint16)
        self.queue.append(Fail(position, term, attempt, code, np.array(fails, np.uint8), due_ms, random))

    def bury(self) -> None:
        """What is over its limit ends; it is held until then."""
        for exhausted in self.leader_term.dispatcher.handing_over.take_exhausted():
            self.ended += len(exhausted.position)
            self.holding += exhausted.position.tolist()
            assert self.numbers[self.book.units[int(exhausted.position[0])].topic] == exhausted.subscription
            self._fail(exhausted.position, exhausted.term, exhausted.attempt, [DEAD] * len(exhausted.position))

    def cancel(self) -> None:
        """Messages that had not ended when last seen are cancelled, held by their homes from now to the result."""
        self._cancel(self._some_homes())

    def reschedule(self) -> None:
        """The same, to be due at another time."""
        homes = self._some_homes()
        self._hold(homes)
        self.queue.append(Reschedule(np.array(homes, np.uint64), np.array([self._due() for _ in homes], np.int64)))

    def _some_homes(self) -> list[int]:
        known = self.book.open_homes()
        if self.random.random() < 0.5:
            known = [home for home in known if self.book.places[home] != home]
        return self.random.sample(known, min(len(known), self._few()))

    def redrive(self) -> None:
        """Messages that ended, dead or not, are asked to be tried again; half of them are held for a cancel too."""
        homes = self.random.sample(sorted(self.book.places), min(len(self.book.places), self._few()))
        due_ms = np.array([self._due() for _ in homes], np.int64)
        self.queue.append(Redrive(np.array(homes, np.uint64), due_ms))
        if self.random.random() < 0.5:
            self._hold(homes)

    def pause(self) -> None:
        """A topic is paused or goes on."""
        name = self.random.choice(TOPICS)
        settings = {"paused": self.random.random() < 0.3}
        self.queue.append(PutTopic("default", name, settings, replace=False))

    # -- the leader's loop

    def step(self) -> int | None:
        """One step, judged; slots are read by the caller where the options say so, and answered late."""
        dispatcher, now_ms = self.leader_term.dispatcher, self.now_ms
        wait_ms = dispatcher.step(now_ms)
        if now_ms >= self.leader_term.start_ms:
            self.leader_term.latest_ms = max(self.leader_term.latest_ms, now_ms)
        if not self.options.inline_reads:
            store = self.replicas[self.leader_term.replica].store
            self.leader_term.reads += [(tick, store.second(tick)) for tick in dispatcher.loads(now_ms)]
        self.check_state()
        self.check_claims()
        return wait_ms

    def answer_reads(self) -> None:
        """What was read reaches the dispatcher."""
        for tick, slot in self.leader_term.reads:
            self.leader_term.dispatcher.loaded(tick, slot)
        self.leader_term.reads.clear()

    def wait(self) -> None:
        """Time passes."""
        self.true_ms += self.random.choice([1, 2, 9, 30, 200, 1_100, 10_000])

    def wobble(self) -> None:
        """The leader's clock goes a little back or forth."""
        self.skew_ms[self.leader_term.replica] += self.random.choice([-60, -5, 3, 40])

    # -- what must hold

    def check_hand_over(self, topic: str, found: HandOver) -> None:
        """In its window, once: due by this clock, neither settled nor leased nor held nor staged, not in flight, within
        its limit, and newer."""
        staged = {position for positions in self.leader_term.staged.values() for position in positions}
        for position, attempt in zip(found.position.tolist(), found.attempt.tolist(), strict=True):
            unit = self.book.units[position]
            assert unit.open_at(self.now_ms), f"{position} at {self.now_ms}: {unit}"
            assert unit.strict_until_ms <= self.now_ms, f"{position} is repeated under its strict lease: {unit}"
            assert unit.topic == topic, f"{position} of {unit.topic} went out for {topic}"
            assert topic not in self.book.paused, f"{topic} is paused"
            assert not {position, unit.home} & self.held, f"{position} of {unit.home} is held"
            assert position not in staged, f"{position} is staged"
            assert position not in self.leader_term.uncommitted, f"{position} is handed over twice"
            assert (self.leader_term.term, attempt) > unit.seen, f"{position}: attempt {attempt} after {unit.seen}"
            assert unit.attempt < attempt <= max(1, self.limit.most), f"{position}: attempt {attempt}: {unit}"
            unit.seen = self.leader_term.term, attempt
            self.leader_term.uncommitted[position] = self.now_ms
        if len(found):
            self.leader_term.hand_overs.append(found)
        times = self.leader_term.uncommitted.values()
        assert not times or max(times) - min(times) < STOP_MS, f"hand-overs at {sorted(times)} are uncommitted"

    def check_passed_over(self, topic: str, tags: TagFilter) -> None:
        """A filter that waits for something new has left nothing it wants in the windows."""
        for lane in self.leader_term.dispatcher._ready.lanes[:1]:  # the other may only be waiting for its pace
            window = lane.windows.get(self.numbers[topic])
            for chunk in window._chunks() if window is not None and topic not in self.book.paused else ():
                for position in chunk.units.position.tolist():
                    unit = self.book.units[position]
                    wanted = tags.matches(unit.tags) and unit.open_at(self.now_ms)
                    assert not wanted or {position, unit.home} & self.held, f"{position} {unit} was passed over"

    def check_claims(self) -> None:
        """Claimed is what is in a window, staged, aside, parked, or handed over and not committed, each once; nothing
        else."""
        dispatcher = self.leader_term.dispatcher
        handing_over, book = dispatcher.handing_over, dispatcher._book
        ready = dispatcher._ready
        windows = [window for lane in ready.lanes for window in lane.windows.values()]
        assert ready.count == sum(window.count for window in windows)
        parked = [window for line in ready.parked.lines.values() for window in (line.unasked, line.asked)]
        assert ready.parked.count == sum(window.count for window in parked)
        windows += parked
        parts = [chunk.units.position for window in windows for chunk in window._chunks()]
        parts += [made.position for batch in (*book._sent, book._open) for made in batch.hand_overs]
        parts += [np.array([*kept], np.uint64) for kept in (handing_over.staged._units, handing_over._holds._aside)]
        claimed = np.concatenate(parts)
        assert len(claimed) == len(np.unique(claimed)) == len(dispatcher._claims)
        assert dispatcher._claims.mask(claimed).all()
        staged = {position for positions in self.leader_term.staged.values() for position in positions}
        assert staged == handing_over.staged._units.keys()

    def check_state(self) -> None:
        """Every unit that the dispatch state names left the wheel, or was ready when this leader began, or is done.

        What is true of a unit stays true under one leader, so a state that was judged is not judged again.
        """
        dispatcher = self.leader_term.dispatcher
        state = dispatcher.dispatch_state()
        if self._judged is not None and self._judged[0] is self.leader_term and self._judged[1] == state:
            return
        self._judged = self.leader_term, state
        given = dispatcher._wheel.given if isinstance(dispatcher._wheel, RecordingWheel) else set()
        units = self.book.units
        known = [(unit.due_ms, position) for position, unit in units.items() if unit.index <= state.applied_index]
        slot = sorted(key for key in known if key[0] // 1000 == state.tick)
        assert len(slot) >= state.local_index
        named = [key for key in known if key[0] // 1000 < state.tick] + slot[: state.local_index]
        for due_ms, position in named:
            unit = units[position]
            assert due_ms <= self.leader_term.latest_ms, f"{position}, due {due_ms}, is named before it is due: {state}"
            overdue = due_ms <= self.leader_term.start_ms and unit.index <= self.leader_term.promoted_index
            assert overdue or position in given or unit.settled or unit.was_leased, (
                f"{position} {unit} named by {state}"
            )

    def check_complete(self) -> None:
        """Drain at one moment, give or take the pace: after it nothing that is ready by the records is left."""
        self.true_ms += max(0, self.leader_term.latest_ms - self.now_ms)
        for topic, staged in self.leader_term.staged.items():
            self.leader_term.dispatcher.handing_over.unstage(self.numbers[topic], np.array(staged, np.uint64))
            staged.clear()
        self.settle_flight()
        for _ in range(2_000):
            self.true_ms += 10
            while self.step() == 0 or self.leader_term.reads:
                self.answer_reads()
            ended, leased_ahead = self.ended, self.leased_ahead
            count = sum(len(self.hand_over(topic, 1000, 100_000)) for topic in TOPICS)
            self.bury()
            self.settle_flight()
            self.begin()
            self.settle_flight()
            if not count and self.ended == ended and self.leased_ahead == leased_ahead and not self._more():
                break
        left = {
            position: unit
            for position, unit in self.book.units.items()
            if unit.topic not in self.book.paused and unit.open_at(self.now_ms - 11 - (GRID_MS if unit.leased else 0))
        }
        assert not left, f"ready at {self.now_ms} and not handed over: {left}"

    def _more(self) -> bool:
        """Whether a window or a backlog says that there is more to hand over, or a rule is to be asked again."""
        ready = self.leader_term.dispatcher._ready
        going = {self.numbers[name] for name in TOPICS if name not in self.book.paused}
        return ready.parked.count > 0 or any(going & (lane.windows.keys() | lane.begins.keys()) for lane in ready.lanes)

    def run(self, events: int) -> None:
        """Play `events` random events, then let everything come out and be acked: nothing may be left."""
        weighted: list[tuple[Callable[[], object], int]] = [
            (self.wait, 20), (self.step, 20), (self.propose, 14), (self.commit, 14), (self.pull, 16), (self.ack, 4),
            (self.schedule, 6), (self.cancel, 2), (self.pause, 1), (self.wobble, 2), (self.answer_reads, 6),
            (self.checkpoint, 1), (self.crash, 1), (self.check_complete, 1), (self.stage, 6), (self.send, 8),
            (self.unstage, 2), (self.burst, 8), (self.fail, 4), (self.bury, 5), (self.reschedule, 1), (self.redrive, 1),
            (self.change_mode, 2), (self.plan, 8), (self.begin, 10), (self.give_up_leadership, 1),
            (self.race, 2),
        ]  # fmt: skip
        kinds, weights = zip(*weighted, strict=True)
        for event in self.random.choices(kinds, weights, k=events):
            event()
        self.crash()
        self.queue += [PutTopic("default", name, {"paused": False}, replace=False) for name in TOPICS]
        self.check_complete()
        last_ms = max((unit.due_ms for unit in self.book.units.values()), default=0)
        while last_ms > self.now_ms - 200_000:
            self.check_complete()
            for hand_over in self.leader_term.hand_overs:
                n = len(hand_over)
                terms = np.full(n, self.leader_term.term, np.uint32)
                self.queue.append(Settle(hand_over.position, terms, hand_over.attempt, np.zeros(n, np.uint16)))
            self.leader_term.hand_overs.clear()
            wait_ms = self.leader_term.dispatcher.step(self.now_ms)
            self.true_ms += 60_000 if wait_ms is None else min(60_000, max(10, wait_ms))
        self.settle_flight()
        lost = {position: unit for position, unit in self.book.units.items() if not unit.settled}
        assert not lost, f"never handed over and acked: {lost}"
