"""A whole kind in a test module: a state, a field, a table, a command, a hold reason, a rule, a leader service. On a
real node, which knows it by its rows alone.

The kind: units with odd numbers wait until somebody has made a mark. The mark is a row of a table, written by a command
that the service proposes at its time. The rule asks the table; the service hears of the mark and has the rule asked
again. A mark may name a message, with a field of its own, which is in a state of its own from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

import node.group.leading
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from node.group.leading import RULES, SERVICES
from node.handover.term import Term
from node.leader.dispatcher import Dispatcher
from node.leader.leader_parts import LeaderParts
from node.leader.service import NEVER_MS, LeaderService
from node.message.view import find
from node.node import Node
from replication.apply.apply_notifier import Changes
from replication.apply.applying import Applying
from replication.apply.registry import COMMANDS, CommandRow
from replication.apply.registry import registered as commands
from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import Packed, Section
from storage.directory.verify import verify
from storage.format.array import U64, Mask
from storage.format.batches import SettleBatch
from storage.format.hold_reasons import HOLD_REASONS, HoldReason
from storage.format.hold_reasons import registered as reasons
from storage.lmdb.table import Table
from storage.store import Store
from storage.tables.registry import TABLES, TableRow
from storage.tables.registry import registered as tables
from storage.wheel.slot import DueUnits
from tests.api.contract.added import added as added_fields
from tests.api.contract.added import note
from tests.node.pushing import play, put
from tests.node.receiver import Request, answer, answering, receiver
from tests.storage.new_state import HALF
from tests.storage.new_state import added as added_states
from tests.waiting import until


class Marks:
    """Times at which a mark was made."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.made: list[int] = []

    def load(self) -> None:
        """Read all rows."""
        self.made = [int.from_bytes(key, "big") for key, _ in self._table.rows()]

    def make(self, at_ms: int) -> None:
        """One more."""
        self._table.put(at_ms.to_bytes(8, "big"), b"")
        self.made.append(at_ms)


MARKS = TableRow("marks", 10, 8, "nobody: a test has an end", cache=Marks)


@dataclass(frozen=True)
class Mark:
    """Make a mark, and leave the unit at `position` half done; 0: none."""

    at_ms: int
    position: int = 0

    def pack(self) -> Packed:
        """As a section."""
        return MARK.number, 1, [pack_map({"at_ms": self.at_ms, "position": self.position})]

    @classmethod
    def unpack(cls, section: Section) -> Mark:
        """From a section."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        return cls(*(filled(value.get(name), int, name) for name in ("at_ms", "position")))


def apply_mark(applying: Applying, command: Mark) -> int:
    """How many marks there are."""
    marks = applying.store.catalog.of(MARKS)
    marks.make(command.at_ms)
    if command.position:
        at = np.array([command.position], np.uint64)
        applying.store.settle(SettleBatch.of(at, what=HALF.number, at_ms=command.at_ms))
    return len(marks.made)


MARK = CommandRow(200, Mark.unpack, apply_mark)
ODD = HoldReason(200, "odd", True, "its number is odd, and nobody has made a mark")


class OddWaits:
    """Holds units with odd numbers until there is a mark."""

    reason = ODD
    leaves_out = False

    def __init__(self, store: Store) -> None:
        self._marks = store.catalog.of(MARKS)

    def may_hold(self, positions: U64) -> bool:
        """See Rule."""
        return True

    def held(self, units: DueUnits, now_ms: int) -> Mask:
        """See Rule."""
        odd: Mask = units.position % 2 == 1
        return odd if not self._marks.made else np.zeros(len(units), np.bool_)


class Marker(LeaderService):
    """Makes a mark when it is told to."""

    def __init__(self, parts: LeaderParts, log: list[tuple[str, int]]) -> None:
        self._clock, self._life, self._proposer = parts.clock, parts.life, parts.proposer
        self._log = log
        self._at_ms = NEVER_MS

    def begin(self, term: Term) -> None:
        """See LeaderService; likewise the others."""
        self._term = term
        self._log.append(("begin", term.term))

    def make_in(self, delay_ms: int) -> int:
        """A mark is to be made then."""
        self._at_ms = self._clock.now_ms() + delay_ms
        self._term.poke()
        return self._at_ms

    def step(self, now_ms: int) -> int:
        """Propose it when its time has come."""
        if now_ms < self._at_ms:
            return self._at_ms
        self._log.append(("step", now_ms))
        self._life.spawn(self._propose(Mark(now_ms)))
        self._at_ms = NEVER_MS
        return NEVER_MS

    async def _propose(self, mark: Mark) -> None:
        self._log.append(("proposed", await self._proposer.propose_single(mark)))

    def applied(self, changes: Changes) -> None:
        """The rule thinks otherwise from the mark on."""
        for command, result in zip(changes.commands, changes.results, strict=True):
            if isinstance(command, Mark):
                self._log.append(("applied", result))
                self._term.handing_over.ask_again()
                self._term.poke()

    def end(self) -> None:
        """Note it."""
        self._log.append(("end", self._term.term))


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], tuple[Marker, list[tuple[str, int]]]]]:
    """The rows are there; gives the newest term's service, and what happened since the last call."""
    made: list[Marker] = []
    log: list[tuple[str, int]] = []

    def service(parts: LeaderParts, dispatcher: Dispatcher) -> LeaderService:
        made.append(Marker(parts, log))
        return made[-1]

    assert tables([*TABLES.values(), MARKS])[MARKS.name] is MARKS
    assert commands([*COMMANDS.values(), MARK])[MARK.number] is MARK
    assert reasons([*HOLD_REASONS.values(), ODD])[ODD.name] is ODD
    monkeypatch.setitem(TABLES, MARKS.name, MARKS)
    monkeypatch.setitem(COMMANDS, MARK.number, MARK)
    monkeypatch.setitem(HOLD_REASONS, ODD.name, ODD)
    monkeypatch.setattr(node.group.leading, "RULES", [*RULES, lambda parts: OddWaits(parts.store)])
    monkeypatch.setattr(node.group.leading, "SERVICES", [*SERVICES, service])

    with added_states(HALF), added_fields(note()):
        yield newest_of(made, log)


def newest_of(made: list[Marker], log: list[tuple[str, int]]) -> Callable[[], tuple[Marker, list[tuple[str, int]]]]:
    """The newest term's service, and what happened since the last call."""

    def newest() -> tuple[Marker, list[tuple[str, int]]]:
        happened, log[:] = log[:], []
        return made[-1], happened

    return newest


async def schedule(node: Node, topic: str, count: int) -> tuple[set[str], set[str]]:
    """Messages that are due now: the ids of those with even numbers, and of those with odd ones."""
    result = await node.front.schedule([MessageIn(topic, b"%d" % number) for number in range(count)], ANONYMOUS)
    ids: dict[int, set[str]] = {0: set(), 1: set()}
    for id in result.ids.tolist():
        ids[find(node.group.store, id.decode()).home % 2].add(id.decode())
    return ids[0], ids[1]


async def pull(node: Node, wait_ms: int) -> list[Delivery]:
    """What there is."""
    return list(await node.front.pull(PullIn("pulled", 100, wait_ms, 60_000), ANONYMOUS))


async def half_done(node: Node) -> None:
    """A message with the field, in the state: both are shown, it is counted, and it keeps its topic."""
    base = f"http://{node.config.http.listen}/v1"
    document = {"topic": "half", "body": 1, "note": "for Ada", "delay": "1h"}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{base}/messages", json=document) as answer:
            id = (await answer.json())["id"]
        home = find(node.group.store, id).home
        await node.group.proposer.propose_single(Mark(node.group.clock.now_ms(), home))
        async with session.get(f"{base}/messages/{id}") as answer:
            shown = await answer.json()
        assert (shown["state"], shown["note"]) == (HALF.word, "for Ada")
        async with session.get(f"{base}/messages/count?topic=half&state={HALF.word}") as answer:
            assert (await answer.json())["count"] == 1
        async with session.delete(f"{base}/topics/half") as answer:
            assert (await answer.json())["code"] == "not-empty"


def test_a_kind_is_its_rows(tmp_path: Path, kind: Callable[[], tuple[Marker, list[Any]]]) -> None:
    """What the rule holds goes out neither by pull nor by push, and by both when the mark is applied. The next term
    begins with what the table says."""

    async def first(node: Node) -> None:
        marker, happened = kind()
        assert happened == [("begin", node.group.raft.term)]
        seen: list[Request] = []
        async with receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "pushed", url)
            even, odd = await schedule(node, "pulled", 7)
            push_even, push_odd = await schedule(node, "pushed", 7)
            assert {each.id for each in await pull(node, 5_000)} == even
            await until(lambda: len(seen) == len(push_even))
            assert await pull(node, 250) == [], "it was asked again meanwhile"
            assert {request.headers["webhook-id"] for request in seen} == push_even
            assert kind()[1] == []
            at_ms = marker.make_in(300)
            late = await pull(node, 20_000)
            assert {each.id for each in late} == odd
            (_, stepped_ms), *others = kind()[1]
            assert others == [("applied", 1), ("proposed", 1)]
            assert stepped_ms >= at_ms
            assert min(each.handed_over_ms for each in late) >= stepped_ms
            await until(lambda: len(seen) == len(push_even | push_odd))
            assert {request.headers["webhook-id"] for request in seen} == push_even | push_odd
        await half_done(node)

    play(tmp_path / "n1", first)
    assert [what for what, _ in kind()[1]] == ["applied", "end"]
    assert verify(tmp_path / "n1").sound

    async def second(node: Node) -> None:
        even, odd = await schedule(node, "pulled", 6)
        found: set[str] = set()
        while found != even | odd:
            found |= {each.id for each in await pull(node, 5_000)}
        assert node.group.store.catalog.of(MARKS).made

    play(tmp_path / "n1", second)
    assert [what for what, _ in kind()[1]] == ["begin", "end"]


def test_a_leader_wakes_for_a_service_alone(tmp_path: Path, kind: Callable[[], tuple[Marker, list[Any]]]) -> None:
    """There is nothing else to do, and nobody asks for a step at that time."""

    async def scene(node: Node) -> None:
        marker, _ = kind()
        at_ms = marker.make_in(700)
        happened: list[Any] = []

        def made() -> bool:
            happened.extend(kind()[1])
            return ("proposed", 1) in happened

        await until(made)
        assert happened[0][0] == "step"
        assert happened[0][1] >= at_ms

    play(tmp_path / "n1", scene)
