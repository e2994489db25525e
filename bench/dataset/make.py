"""Node directories whose ledger is known beforehand: any number of plain messages, with stories planted among them. A
story is what happens to a few messages, such as a lease that ends (planted_cases.py).

    make(root, messages=10_000_000, each=1_000) -> Planted

Three nodes `n1` to `n3` lead in turn, and each leader but the last is killed. For every class, flag and cause of the
ledger, `each` messages are planted. `Planted` keeps their ids and the expected rows of the ledger. All other messages
are delivered once, on time. So a ledger is right if it has exactly these rows, which `Planted.differences` compares.

The hours, in order:

- one before the window, whose accounts are removed by retention
- the hours with plain messages; the records end with the last of them
- one with pending messages.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.dataset.files import HourWriter, Quiet, Written
from bench.dataset.nodes import NODES, Accounts, make_directories, write_catalog
from bench.dataset.planted_case import DELIVERY_PLAN, ORDERS, STORY_MS, HandOver, Plan, Terms
from bench.dataset.planted_cases import STORIES
from ledger.bucket import RECEIPT
from ledger.columns import Columns, Flag, Lost, MessageClass
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.file.delivery_file import whole_from_ms
from storage.format.array import U64
from storage.format.message_id import RANDOM_BITS
from storage.format.position import HOUR_MS, INDEX_BITS
from storage.record.delivery_record import TERM_BEGUN
from storage.tables.topic import Pause, paused_settings

FIRST_HOUR: Final = 489_600
"""2025-11-08 00:00 UTC: before the window."""
PER_HOUR: Final = 1 << 20
TOPICS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("orders", {}),
    ("hooks", {"mode": "push", "push": {"url": "http://127.0.0.1:9/"}}),
    ("strict", {"mode": "push", "push": {"url": "http://127.0.0.1:9/"}, "handover": "strict"}),
    ("audited", {}),
    ("paused", {"paused": True}),
]
NO_LEADER_MS: Final = 700
_EXPECTED: Final = ("class", "flags", "late_cause", "lost", "hand_overs", "retries", "duplicates")
_REPEATED: Final = ("home", "other", "cause", "term", "attempt", "before_term", "before_attempt")


@dataclass(frozen=True, slots=True)
class Planted:
    """The planted messages and their expected ledger.

    - `expected`: a row for each planted message, in order of home. Its columns are `home`, `random`, `case` (an
      ordinal in `cases`) and those of ledger.columns.LEDGER.
    - `repeats`: the duplicates, as in DUPLICATES.
    """

    directories: list[Path]
    messages: int
    cases: list[str]
    expected: Columns
    repeats: Columns
    receipts: npt.NDArray[Any]
    """RECEIPT rows of the topic `audited`: all that its consumers got."""
    never_stored: npt.NDArray[Any]
    """RECEIPT rows of ids that a producer got, and that no node has."""
    from_ms: int
    until_ms: int

    def homes(self, case: str) -> U64:
        """Return the homes of all messages of one story."""
        homes: U64 = self.expected["home"][self.expected["case"] == self.cases.index(case)]
        return homes

    def differences(self, messages: Columns, duplicates: Columns, *, receipts: bool) -> list[str]:
        """Return the differences of a ledger from the expected one, a sentence each. Empty if there are none.

        `messages` need only the remarkable rows: of another class than delivered once, or with flags. `receipts`: true
        if the ledger was made with these receipts.
        """
        expected = {name: self.expected[name].copy() for name in ("home", *_EXPECTED)}
        if not receipts:
            silent = expected["lost"] == Lost.NEVER_RECEIVED
            expected["class"][silent], expected["lost"][silent] = MessageClass.DELIVERED_ONCE, Lost.NONE
            expected["flags"][silent] = 0
        return [
            *_compared("message", _remarkable(expected), _remarkable(messages), ("home", *_EXPECTED)),
            *_compared("duplicate", self.repeats, duplicates, _REPEATED),
        ]


def make(root: Path, *, messages: int, each: int, per_hour: int = PER_HOUR, kills: int = 20, seed: int = 1) -> Planted:
    """Write three node directories below `root`, which must not hold them yet.

    `messages` are plain ones, about `per_hour` an hour. There are `each` messages of every story, and `kills` leaders
    die in the plain hours.
    """
    assert min(messages, each, kills) > 0, f"{messages} messages, {each} of each story, {kills} kills"
    chance = np.random.default_rng(seed)
    hours = max(1, -(-messages // per_hour))
    from_ms = (FIRST_HOUR + 1) * HOUR_MS
    until_ms = from_ms + hours * HOUR_MS
    whole_ms = whole_from_ms(from_ms)
    terms = _terms(from_ms, until_ms, kills)
    calm_ms = [
        (max(begun, whole_ms) + 5_000, ended - STORY_MS - 5_000)
        for begun, ended in zip(terms.begun_ms.tolist(), terms.ended_ms.tolist(), strict=True)
    ]
    assert all(begin < end for begin, end in calm_ms), f"{kills} kills in {hours} h leave no calm between them"
    plan = Plan(chance, terms, calm_ms, FIRST_HOUR * HOUR_MS - 3 * HOUR_MS)
    for case in STORIES:
        case(plan, each)
    _at_the_ends(plan, each, until_ms)
    _begin_terms(plan)
    directories = make_directories(root)
    quiet = Quiet(whole_ms + 2_000, until_ms - 5_000, terms.ended_ms[:-1] - 2_500, terms.begun_ms[1:] + 1_000)
    units, written = _write(root, plan, quiet, messages, hours)
    record = CheckpointRecord(
        applied_index=1, applied_term=int(terms.number[-1]), tick=until_ms // 1000, local_index=0,
        state_applied_index=1, max_now_ms=until_ms, hours=written.lengths,
    )  # fmt: skip
    topics = [*TOPICS, ("resumed", paused_settings(Pause(0, plan.resumed_ms)))]
    for path in directories:
        write_catalog(path, topics, record, plan.created_ms)
    return _told(directories, plan, units, written, messages, from_ms, until_ms)


def _terms(from_ms: int, until_ms: int, kills: int) -> Terms:
    """Return `kills` + 1 terms, numbered from 2 on. All but the last end with a kill. Term 1 lies before the window."""
    killed_ms = from_ms + (np.arange(kills) + 1) * (until_ms - from_ms) // (kills + 1)
    number = 2 + np.arange(kills + 1)
    return Terms(
        number=number,
        node=np.arange(kills + 1) % len(NODES) + 1,
        begun_ms=np.concatenate([[from_ms], killed_ms + NO_LEADER_MS]),
        ended_ms=np.concatenate([killed_ms, [until_ms]]),
    )


def _at_the_ends(plan: Plan, each: int, until_ms: int) -> None:
    """Plant messages before the window, right at the end of the records, and after it."""
    due_ms = FIRST_HOUR * HOUR_MS + 600_000 + plan.chance.integers(0, 1_800_000, each)
    messages = plan.messages("outside_window", due_ms)
    one = np.ones(each, np.int64)
    made = HandOver(due_ms + 3, one, 1, one)
    plan.settle(messages.place, 1, made.at_ms, made, when=made.at_ms + 30_000)
    plan.end(messages, 2, made.at_ms + 20, made)
    plan.expect(messages, MessageClass.DELIVERED, Flag.OUTSIDE_WINDOW | Flag.RECORDS_MISSING)
    messages = plan.messages("in_flight", until_ms - 3_000 + plan.chance.integers(0, 500, each))
    plan.hand_over(messages, 1, messages.due_ms + 3)
    plan.expect(messages, MessageClass.IN_FLIGHT)
    messages = plan.messages("pending", until_ms + HOUR_MS + plan.chance.integers(0, HOUR_MS, each), ORDERS)
    plan.expect(messages, MessageClass.PENDING)


def _begin_terms(plan: Plan) -> None:
    rows = np.zeros(len(plan.terms.number), DELIVERY_PLAN)
    rows["unit"], rows["kind"] = -1, TERM_BEGUN
    rows["at_ms"], rows["term"], rows["node"] = plan.terms.begun_ms, plan.terms.number, plan.terms.node
    rows["tick"] = plan.terms.begun_ms // 1000
    plan.deliveries.append(rows)


def _write(root: Path, plan: Plan, quiet: Quiet, messages: int, hours: int) -> tuple[npt.NDArray[Any], Written]:
    """Write the files of all hours and the delivery logs of all nodes. Return all planted units, and where they were
    written."""
    units, settles, deliveries = map(np.concatenate, (plan.units, plan.settles, plan.deliveries))
    unit_hour, plain = units["due_ms"] // HOUR_MS, np.full(hours, messages // hours)
    plain[: messages % hours] += 1
    writers: list[HourWriter] = []
    position: U64 = np.zeros(len(units), np.uint64)
    for hour in sorted({*unit_hour.tolist(), *range(FIRST_HOUR + 1, FIRST_HOUR + 1 + hours)}):
        inside = FIRST_HOUR < hour <= FIRST_HOUR + hours
        count = int(plain[hour - FIRST_HOUR - 1]) if inside else 0
        writer = HourWriter(hour, count, units, np.flatnonzero(unit_hour == hour), plan.created_ms, plan.chance)
        position[writer.at] = np.uint64(hour << INDEX_BITS) + writer.index.astype(np.uint64)
        writers.append(writer)
    random: U64 = plan.chance.integers(1, 1 << RANDOM_BITS, len(units), dtype=np.uint64)
    written = Written(position, random[units["home"]], {})
    settles["when"] = np.where(settles["to"] >= 0, position[settles["to"]].view(np.int64), settles["when"])
    settle_hour, delivery_hour = unit_hour[settles["unit"]], deliveries["at_ms"] // HOUR_MS
    accounts = Accounts(root)
    for writer in writers:
        rows, lost = writer.write(
            root, units, settles[settle_hour == writer.hour], deliveries[delivery_hour == writer.hour], written, quiet,
            plan.terms,
        )  # fmt: skip
        accounts.append(rows, lost, writer.hour)
    assert np.isin(delivery_hour, [writer.hour for writer in writers]).all(), "a hand-over in an hour that is not kept"
    return units, written


def _told(
    directories: list[Path], plan: Plan, units: npt.NDArray[Any], written: Written, messages: int, from_ms: int,
    until_ms: int,
) -> Planted:  # fmt: skip
    """Return the planted messages and their expected ledger, with the places and random bits that their units got in
    the files."""
    told, again = np.concatenate(plan.expected), np.concatenate(plan.repeats)
    told = told[np.argsort(written.position[told["unit"]])]
    expected = {"home": written.position[told["unit"]], "random": written.random[told["unit"]]}
    expected |= {name: told[name].copy() for name in ("case", *_EXPECTED)}
    again = again[np.lexsort((again["attempt"], again["term"], written.position[again["unit"]]))]
    repeats = {"home": written.position[again["unit"]], "other": written.position[again["other"]]}
    repeats |= {name: again[name].copy() for name in _REPEATED[2:]}
    received = told["case"] == plan.cases.index("received")
    receipts = np.zeros(int(received.sum()), RECEIPT)
    receipts["home"], receipts["random"] = expected["home"][received], expected["random"][received]
    receipts["at_ms"] = units["due_ms"][told["unit"][received]] + 10
    receipts["attempt"] = 1
    receipts["term"] = plan.terms.number[plan.terms.at(receipts["at_ms"])]
    count = int(np.bincount(told["case"])[0])
    return Planted(
        directories=directories,
        messages=messages + len(told),
        cases=list(plan.cases),
        expected=expected,
        repeats=repeats,
        receipts=_around(receipts, from_ms, until_ms),
        never_stored=_never_stored(plan, count, from_ms),
        from_ms=from_ms,
        until_ms=until_ms,
    )


def _around(receipts: npt.NDArray[Any], from_ms: int, until_ms: int) -> npt.NDArray[Any]:
    """Move the times of the first and the last receipt to the ends of the window, so that the receipts cover all of
    it."""
    if len(receipts) > 1:
        receipts["at_ms"][0], receipts["at_ms"][-1] = from_ms, until_ms
    return receipts


def _never_stored(plan: Plan, count: int, from_ms: int) -> npt.NDArray[Any]:
    rows = np.zeros(count, RECEIPT)
    beyond = 1 << 30
    rows["home"] = np.uint64((from_ms // HOUR_MS << INDEX_BITS) + beyond) + np.arange(count, dtype=np.uint64)
    rows["random"] = plan.chance.integers(1, 1 << RANDOM_BITS, count, dtype=np.uint64)
    return rows


def _remarkable(columns: Columns) -> Columns:
    """Return the remarkable rows, in order of home: those that were not simply delivered once."""
    rows = (columns["class"] != MessageClass.DELIVERED_ONCE) | (columns["flags"] != 0)
    rows |= columns["hand_overs"] != 1
    at = np.flatnonzero(rows)
    at = at[np.argsort(columns["home"][at], kind="stable")]
    return {name: column[at] for name, column in columns.items()}


def _compared(what: str, expected: Columns, found: Columns, names: tuple[str, ...]) -> list[str]:
    """Return sentences about the rows that only one of the two tables has, at most 20 for each table. Two rows are
    equal if all these columns are."""
    left, right = (Counter(zip(*(table[name].tolist() for name in names), strict=True)) for table in (expected, found))
    if left == right:
        return []
    said = [f"{left.total()} {what}s were planted that are to be told of, {right.total()} were"]
    said += [f"{what} not told: {dict(zip(names, row, strict=True))}" for row in sorted(left - right)[:20]]
    said += [f"{what} told otherwise: {dict(zip(names, row, strict=True))}" for row in sorted(right - left)[:20]]
    return said
