"""The checker of restored clusters can fail: what is left out of an answer turns `restored` red."""

from typing import Any

import pytest

from chaos.check.message.restored import check_restored, held
from chaos.history.bounds import Bounds
from chaos.history.event import BackedUp, Event, Recalled, Settled
from chaos.history.history import History
from storage.format.states import DELIVERED
from tests.chaos.history.planted import COUNT, at
from tests.chaos.history.planted_inside import good_inside

NUMBER = 20  # handed over once, and acked


def restored(*answers: Event, index: int = NUMBER + 1) -> History:
    """The good history, a backup of it up to this entry, and what a cluster that was made of it says."""
    backup = BackedUp(**at(5_000), node="n2", applied_index=index)
    return History([*good_inside(), backup, *answers])


def told(answer: Any, again: int = 0, **more: Any) -> Recalled:
    """An answer about that message."""
    message_id = f"id{NUMBER}"
    return Recalled(**at(20_000), number=NUMBER, message_id=message_id, answer=answer, again=again, **more)


@pytest.fixture(autouse=True)
def _numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted ids say the number."""

    class Planted:
        def __init__(self, name: str) -> None:
            self.position = int(name.removeprefix("id"))

    monkeypatch.setattr("chaos.check.message.restored.decode_id", Planted)


def wrong(history: History) -> list[str]:
    """What is untrue."""
    return check_restored(history, Bounds()).faults


def test_nothing_is_said_without_a_restore() -> None:
    """The good history has none."""
    verdict = check_restored(History(good_inside()), Bounds())
    assert (verdict.figure, verdict.faults) == ({}, [])


def test_a_backup_holds_what_its_node_had_applied() -> None:
    """Up to its entry; what had ended by then has ended in it."""
    message_id = f"id{NUMBER}"
    ended = Settled(**at(250), message_id=message_id, index=NUMBER, what=DELIVERED, term=1, attempt=1, code=0)
    assert held(restored(index=COUNT)) == (set(range(COUNT)), set())
    assert held(restored(ended)) == (set(range(NUMBER + 1)) - {NUMBER}, {NUMBER})
    assert held(restored(ended, index=NUMBER - 1)) == (set(range(NUMBER - 1)), set())


@pytest.mark.parametrize(
    ("prior", "attempts_made", "again", "true"),
    [
        ("none", 0, 0, False),
        ("known", 0, 0, False),
        ("known", 1, 0, True),
        ("known", 1, 1, False),
        ("unknown", 0, 1, True),
    ],
)
def test_a_cancel_leaves_out_no_hand_over_of_either_cluster(
    prior: str, attempts_made: int, again: int, true: bool
) -> None:
    """D8: one by the old cluster, and some by the new one."""
    answer = told("cancelled", again, prior=prior, attempts_made=attempts_made)
    assert bool(wrong(restored(answer))) is not true


@pytest.mark.parametrize(
    ("kind", "hand_overs", "complete", "again", "true"),
    [
        ("pending", 0, True, 0, False),
        ("pending", 0, False, 0, True),
        ("delivered", 1, True, 1, False),
        ("delivered", 1, False, 1, True),
        ("delivered_once", 1, False, 1, False),
        ("lost", 0, False, 0, False),
    ],
)
def test_the_ledger_leaves_out_no_hand_over_or_says_so(
    kind: str, hand_overs: int, complete: bool, again: int, true: bool
) -> None:
    """D8: and what both delivered was not delivered once."""
    answer = told("accounted", again, kind=kind, hand_overs=hand_overs, complete=complete)
    assert bool(wrong(restored(answer))) is not true


def test_what_was_open_in_the_backup_is_known() -> None:
    """What had ended may be forgotten by now; what came later is not there."""
    assert wrong(restored(told("unknown-message")))
    assert not wrong(restored(told("unknown-message"), index=NUMBER))
