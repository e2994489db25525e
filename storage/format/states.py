"""The states of a unit, one row each: its number in settle records, its properties for the code, its word for people.

A settle record's `what` is the number of a row. The newest record of a unit is its state, unless the record leaves the
unit in another one (`released`). Code that means one state names its constant. Code that asks for a property asks a
table: an array of 256 entries by number. One index answers for a whole column (`IS_OPEN[states.state]`).

A new state is a row here. Storage, apply, node, ledger, reconcile and API follow from its properties.
"""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.format.array import U8, Mask
from storage.format.level import FOUNDED
from storage.format.registry import BadRow, by_number_with_level

NUMBER_MAX: Final = 253
"""The largest number that a state may have. The two numbers above it, READY and UNKNOWN, are no states."""
READY: Final = 254
"""In counts: a pending unit that is due."""
UNKNOWN: Final = 255
"""In answers of the store: the unit does not exist."""
READY_WORD: Final = "ready"

PENDING: Final = 0
LEASED: Final = 1
DELIVERED: Final = 2
CANCELLED: Final = 3
MOVED: Final = 4
DEAD: Final = 5
EXPIRED: Final = 6
RELEASED: Final = 7
FORWARDED: Final = 8

LEASE_END: Final = "the lease's end"
PLACE: Final = "the position moved to"
"""The two meanings of `when` in a settle record. A state may have another one, which nothing here reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The properties of a unit in a state. Each row gives all of them, so that none is forgotten."""

    is_pending: bool
    """The wheel and the backlog give the unit out when it is due."""
    is_open: bool
    """The unit may be leased, settled, cancelled and moved."""
    lives_here: bool
    """The message has not ended, and is not at another position. A topic with such a unit is not empty."""
    keeps_hour: bool
    """The unit is not settled for good, so its hour is not unlinked."""


@dataclass(frozen=True, slots=True)
class State:
    """A state. `number` stands in settle records and is never given to another state. `name` is the word for it
    there."""

    number: int
    name: str
    answers: Answers
    word: str = ""
    """The word that clients read for a message whose unit is in this state. Empty if the unit stands for no message.

    A pending unit is READY_WORD once it is due.
    """
    said_as: str = ""
    """The word for the record in a message's history. `name` if it is empty."""
    when: str = ""
    """The meaning of `when` in the settle record."""
    leaves: int | None = None
    """The number of the state in which the record leaves the unit. None: its own number."""
    tells_failure: bool = False
    """The record's code may say that the hand-over which the record names failed."""
    since: int = FOUNDED
    """The level of the cluster from which the state is written."""

    @property
    def event(self) -> str:
        """The word by which a message's history names a settle record of this state."""
        return self.said_as or self.name

    @property
    def shown(self) -> bool:
        """True if a unit in this state stands for a message."""
        return self.leaves is None and self.when != PLACE


def registered(rows: Iterable[State]) -> dict[int, State]:
    """The rows by number. Raises BadRow."""
    found = by_number_with_level("state", rows, range(NUMBER_MAX + 1))
    for row in found.values():
        wrong = _contradiction(row, found)
        if wrong:
            raise BadRow(f"state {row.name}: {wrong}")
    return found


def _contradiction(row: State, found: dict[int, State]) -> str:
    """The reason why a row is wrong, "" if it is right."""
    its = row.answers
    left = found.get(row.number if row.leaves is None else row.leaves)
    pending = found.get(PENDING, row)
    for wrong, why in (
        (row.shown and not row.word, "it has no word for people"),
        (not row.shown and row.word, f'it stands for no message, so nobody is told "{row.word}"'),
        (row.shown and row.word == READY_WORD, f'"{READY_WORD}" is what is pending and due'),
        (row.shown and its.is_pending and row.word != pending.word, f'what is pending is told as "{pending.word}"'),
        (its.is_pending and not its.is_open, "what is pending is open: it is leased next"),
        (its.is_open and not its.lives_here, "what is open has not ended"),
        (its.lives_here and not its.keeps_hour, "what has not ended keeps its hour"),
        (its.lives_here and row.when == PLACE, "its message cannot live here and at the place moved to"),
        (left is None, f"it leaves its unit in {row.leaves}, which is no state"),
        (left is not None and left.leaves is not None, "it leaves its unit in what is no state of a unit"),
        (left is not None and left.answers != its, "its answers are not those of the state that it leaves its unit in"),
    ):
        if wrong:
            return why
    return ""


_HANDED_OUT: Final = Answers(is_pending=True, is_open=True, lives_here=True, keeps_hour=True)
_OPEN: Final = Answers(is_pending=False, is_open=True, lives_here=True, keeps_hour=True)
_ELSEWHERE: Final = Answers(is_pending=False, is_open=False, lives_here=False, keeps_hour=True)
_SETTLED: Final = Answers(is_pending=False, is_open=False, lives_here=False, keeps_hour=False)

STATES: Final = registered(
    [
        State(PENDING, "pending", _HANDED_OUT, "scheduled"),  # of a unit without settle records
        State(LEASED, "leased", _OPEN, "leased", when=LEASE_END),
        State(DELIVERED, "delivered", _SETTLED, "delivered"),
        State(CANCELLED, "cancelled", _SETTLED, "cancelled"),
        State(MOVED, "moved", _SETTLED, when=PLACE, tells_failure=True),
        State(DEAD, "dead", _SETTLED, "dead", tells_failure=True),
        State(EXPIRED, "expired", _SETTLED, "expired"),
        State(RELEASED, "released", _HANDED_OUT, leaves=PENDING),
        # Written at home, always to the newest place, where the message lives.
        State(FORWARDED, "forwarded", _ELSEWHERE, said_as="moved", when=PLACE, tells_failure=True),
    ]
)

_Table = npt.NDArray[Any]
_tables: list[tuple[_Table, _Table, Callable[[State], int]]] = []
_ITSELF: Final[U8] = np.arange(256, dtype=np.uint8)


def table(answer: Callable[[State], int], absent: npt.ArrayLike = False) -> _Table:
    """Make an array of 256 entries by number. An entry is `answer` of the state with that number, or `absent` if there
    is no such state. `make_tables` fills the same array again."""
    without = np.broadcast_to(absent, 256)
    made = without.copy()
    _tables.append((made, without, answer))
    _fill(made, without, answer)
    return made


def _fill(made: _Table, without: _Table, answer: Callable[[State], int]) -> None:
    made[:] = without
    for row in STATES.values():
        made[row.number] = answer(row)


IS_PENDING: Final[Mask] = table(lambda row: row.answers.is_pending)
IS_OPEN: Final[Mask] = table(lambda row: row.answers.is_open)
LIVES_HERE: Final[Mask] = table(lambda row: row.answers.lives_here)
KEEPS_HOUR: Final[Mask] = table(lambda row: row.answers.keeps_hour)
IS_SETTLED: Final[Mask] = table(lambda row: not row.answers.keeps_hour)
"""Settled for good."""
IS_HELD: Final[Mask] = table(lambda row: row.answers.lives_here and not row.answers.is_open)
"""The message has not ended, and nothing may be done with it for now. None of today's states is held."""
IS_WHAT: Final[Mask] = table(lambda row: row.number != PENDING)
"""A settle record may have this `what`."""
TELLS_FAILURE: Final[Mask] = table(lambda row: row.tells_failure)
LEADS_AWAY: Final[Mask] = table(lambda row: row.when == PLACE)
"""The message went on to the place that `when` names."""
LEAVES: Final[U8] = table(lambda row: row.number if row.leaves is None else row.leaves, _ITSELF)
"""The state in which a record leaves its unit, by `what`."""
COUNTED_AS: Final[U8] = table(lambda row: PENDING if row.answers.is_pending else row.number, _ITSELF)
"""The number under which a unit in each state is counted. A pending unit that is due is counted under READY instead."""

STANDINGS: Final[dict[str, frozenset[int]]] = {}
"""For each word that clients read, in order, such as `scheduled`: the numbers that are counted under it. Those are
COUNTED_AS of states, and READY."""
OPEN_STANDINGS: Final[set[int]] = set()
LIVE_STANDINGS: Final[set[int]] = set()
ENDED_STANDINGS: Final[set[int]] = set()
"""The numbers under which open messages are counted, then all that have not ended, then all that have."""


def make_tables() -> None:
    """Fill all tables again from STATES, in place, so that every module that imported a table sees the change."""
    for made, without, answer in _tables:
        _fill(made, without, answer)
    _make_standings()


def _make_standings() -> None:
    for container in (STANDINGS, OPEN_STANDINGS, LIVE_STANDINGS, ENDED_STANDINGS):
        container.clear()
    for row in STATES.values():
        if not row.shown:
            continue
        numbers = frozenset((int(COUNTED_AS[row.number]),))
        STANDINGS[row.word] = STANDINGS.get(row.word, frozenset()) | numbers
        if row.answers.is_pending:
            STANDINGS[READY_WORD] = frozenset((READY,))
            numbers |= STANDINGS[READY_WORD]
        if row.answers.is_open:
            OPEN_STANDINGS.update(numbers)
        (LIVE_STANDINGS if row.answers.lives_here else ENDED_STANDINGS).update(numbers)


_make_standings()


def words(among: Set[int]) -> tuple[str, ...]:
    """The words of STANDINGS whose numbers are all in `among`, in order. Messages are counted under these words."""
    return tuple(word for word, numbers in STANDINGS.items() if numbers <= among)
