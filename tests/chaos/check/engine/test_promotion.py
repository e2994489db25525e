"""The checker of promotions can fail, and knows how a message may have ended."""

from chaos.check.engine.promotion import check_promotion
from chaos.history.bounds import Bounds
from chaos.history.event import Event, Promoted, Settled
from chaos.history.history import History
from storage.format.states import CANCELLED, MOVED
from tests.chaos.history.planted import at

OPEN = Promoted(**at(100), node="n1", term=2, open_ids=("id1",), given=False)


def settled(what: int) -> Settled:
    """What an entry did to the message."""
    return Settled(**at(120), message_id="id1", index=9, what=what, term=0, attempt=0, code=0)


def faults(*events: Event) -> list[str]:
    """The faults of such a history."""
    return check_promotion(History(events), Bounds()).faults


def test_an_open_message_that_never_comes_is_told() -> None:
    """Also one that was only moved."""
    told = ["id1: open when n1 began term 2, never handed over after"]
    assert faults(OPEN) == told
    assert faults(OPEN, settled(MOVED)) == told


def test_1013_a_message_whose_client_has_no_answer_may_be_cancelled() -> None:
    """Its wish had no answer, and a later wish replaced it. Only the log names it."""
    assert faults(OPEN, settled(CANCELLED)) == []
