"""The outcome of a call, by the client's core without its retries."""

import pytest

from chaos.client.outcome import Outcome, refusal, refused
from hourwheel.core.problem import Problem


@pytest.mark.parametrize(
    ("outcome", "not_done", "again", "again_with_key"),
    [
        (Outcome("ok", 1), False, False, False),
        (Outcome("refused"), True, True, True),  # no connection came to be
        (refusal("no-leader"), True, True, True),
        (refusal("leased"), False, False, False),
        (refusal("outcome-unknown"), False, False, True),
        (refusal("internal"), False, False, True),
        (Outcome("unknown"), False, False, True),
        (Outcome("unknown", None, "no-leader"), False, False, True),
        (refused(Problem(502)), False, False, True),  # it may come from a node on the way
        (refused(Problem(400)), False, False, False),
    ],
)
def test_what_may_be_sent_again(outcome: Outcome[int], not_done: bool, again: bool, again_with_key: bool) -> None:
    """An unknown outcome stays one: only a call with a key is sent again."""
    assert (outcome.not_done, outcome.may_go_again(False)) == (not_done, again)
    assert outcome.may_go_again(True) == again_with_key


def test_a_doubt_about_an_earlier_try_stays() -> None:
    """Unless the last one was done."""
    assert refusal("leased").after(True) == Outcome("unknown", None, "leased")
    assert refusal("leased").after(False) == Outcome("refused", None, "leased")
    assert Outcome("ok", 1).after(True) == Outcome("ok", 1)


def test_a_refusal_keeps_what_else_its_answer_says() -> None:
    """And an answer without a code is named by its status."""
    assert refusal("leased", {"attempt": 2}).extra == {"attempt": 2}
    assert refused(Problem(400)) == Outcome("refused", None, "HTTP 400")
