"""The checkers of a simulated run, one for every promise that it judges. A run in which too little happened proves
nothing, and does not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from chaos.check.engine.alive import check_alive
from chaos.check.engine.committed import check_committed
from chaos.check.engine.digests import check_digests
from chaos.check.engine.dispatch_state import check_dispatch_state
from chaos.check.engine.door import check_door
from chaos.check.engine.held import check_held
from chaos.check.engine.levels import check_levels
from chaos.check.engine.promotion import check_promotion
from chaos.check.engine.started import check_started
from chaos.check.engine.trust import check_trust
from chaos.check.message.answers import check_answers
from chaos.check.message.duplicates import check_duplicates
from chaos.check.message.ids import check_ids
from chaos.check.message.keys import check_keys
from chaos.check.message.linear import check_linear
from chaos.check.message.lost import check_lost
from chaos.check.message.many_moves import check_many_moves
from chaos.check.message.operations import check_operations
from chaos.check.message.restored import check_restored
from chaos.check.message.unscheduled import check_unscheduled
from chaos.check.message.whole_batches import check_whole_batches
from chaos.check.message.window import check_window
from chaos.history.bounds import Bounds
from chaos.history.event import Begun, Sure
from chaos.history.history import History
from chaos.history.verdict import Verdict

CHECKERS: Final[tuple[Callable[[History, Bounds], Verdict], ...]] = (
    check_lost,
    check_unscheduled,
    check_answers,
    check_window,
    check_started,
    check_duplicates,
    check_digests,
    check_trust,
    check_committed,
    check_dispatch_state,
    check_promotion,
    check_ids,
    check_linear,
    check_alive,
    check_held,
    check_door,
    check_levels,
    check_restored,
    check_operations,
    check_many_moves,
    check_keys,
    check_whole_batches,
)

#: Two clocks differ by at most this: each may be off by 500 ms, and the rest is a margin for clocks that are slewed.
#: What is early is judged by the probe's observations instead (chaos/check/message/window.py).
BOUNDS: Final = Bounds(skew_ms=1_050)
#: For a run in which all clocks were set together. Its nodes know no other time, so a receiver's time says nothing
#: about theirs.
ANY_TIME: Final = Bounds(skew_ms=1 << 40, clocks_set_back=True)

#: A run counts with at least this many hand-overs and changes of leader.
HAND_OVERS_MIN: Final = 500
CHANGES_MIN: Final = 1


def judge(history: History, bounds: Bounds = BOUNDS) -> list[Verdict]:
    """All verdicts, in the order of CHECKERS."""
    return [check(history, bounds) for check in CHECKERS]


def changes_of_leader(history: History) -> int:
    """How many terms after the first had a leader that was sure to lead."""
    return max(0, len({event.term for event in history.of(Sure)}) - 1)


def counts(history: History) -> bool:
    """True if the run had at least HAND_OVERS_MIN hand-overs and CHANGES_MIN changes of leader, so that its verdicts
    mean something."""
    return len(history.of(Begun)) >= HAND_OVERS_MIN and changes_of_leader(history) >= CHANGES_MIN
