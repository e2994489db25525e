"""All checkers (chaos/check has one per promise): each reads a history, says whether the promise held, and gives the
figure that a reader would ask for.

The letters are those of the invariants that every fault is judged by:

- L  acknowledged and never handed over = 0
- U  handed over though never scheduled, twice scheduled, or after an acknowledged cancel = 0
- W  each hand-over in its window, never early
- P  every webhook received has a start in the delivery log of the node that sent it
- D  failover duplicates of one term change span at most 50 ms of hand-over time; any other repeat has the end of a
  lease or a failed attempt as its cause
- S  one leader per term; terms never go back, but for what an old leader had chosen before its fault
- T  a planned transfer repeats nothing and pauses hand-overs for a moment only
- R  after a fault the service comes back in time, and outside the fault windows what is offered is acknowledged

A checker knows nothing of the cluster but the history, so planting one fault in a good history must turn exactly its
promise red; the tests do.
"""

from collections.abc import Callable

from chaos.check.engine.recovery import check_recovery
from chaos.check.engine.started import check_started
from chaos.check.engine.terms import check_terms
from chaos.check.engine.transfers import check_transfers
from chaos.check.message.answers import check_answers
from chaos.check.message.duplicates import check_duplicates
from chaos.check.message.lost import check_lost
from chaos.check.message.unscheduled import check_unscheduled
from chaos.check.message.window import check_window
from chaos.history.bounds import Bounds
from chaos.history.history import History
from chaos.history.verdict import Verdict

CHECKERS: tuple[Callable[[History, Bounds], Verdict], ...] = (
    check_lost,
    check_unscheduled,
    check_answers,
    check_window,
    check_started,
    check_duplicates,
    check_terms,
    check_transfers,
    check_recovery,
)


def judge(history: History, bounds: Bounds) -> list[Verdict]:
    """All verdicts, in the order of the promises."""
    return [check(history, bounds) for check in CHECKERS]
