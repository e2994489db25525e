"""What may be sent again, to whom and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourwheel.core.errors import (
    TYPES,
    Effect,
    HourwheelError,
    OutcomeUnknown,
    Refused,
    error_of,
    unanswered,
    unreachable,
)
from hourwheel.core.problem import Problem
from hourwheel.core.retry import NextTry, Retry, asks_one_node, effect_of_all, next_try

LOST, AWAY = unanswered("a", "reset"), unreachable("a", "refused")


def said(code: str, wait_s: float | None = None) -> HourwheelError:
    """The error of an answer with this code."""
    return error_of(Problem(503, code, retry_after_s=wait_s))


@pytest.mark.parametrize(
    ("method", "keyed", "error", "found"),
    [
        ("POST", False, AWAY, NextTry(True, 0.0)),
        ("POST", False, LOST, None),
        ("DELETE", False, LOST, None),  # it could undo what another client did in between
        ("POST", True, LOST, NextTry(True, 0.0)),
        ("get", False, LOST, NextTry(True, 0.0)),
        ("POST", False, said("draining", 1.0), NextTry(True, 0.0)),
        ("POST", False, said("no-leader", 2.0), NextTry(False, 2.0)),
        ("POST", False, said("no-leader"), NextTry(False, 1.0)),
        ("POST", False, said("busy", 3.0), NextTry(True, 3.0)),
        ("POST", False, said("outcome-unknown"), None),
        ("POST", True, said("outcome-unknown"), NextTry(True, 0.0)),
        ("GET", True, said("leased"), None),
        ("GET", True, error_of(Problem(404)), None),
    ],
)
def test_next_try(method: str, keyed: bool, error: HourwheelError, found: NextTry | None) -> None:
    """By the contract alone."""
    assert next_try(method, keyed, error) == found


ERRORS = st.sampled_from([LOST, AWAY, *map(said, TYPES)])
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])


@given(METHODS, st.booleans(), ERRORS)
def test_nothing_is_done_twice_and_no_refusal_asked_again(method: str, keyed: bool, error: HourwheelError) -> None:
    """For each method and each code there is."""
    found = next_try(method, keyed, error)
    if isinstance(error, Refused):
        assert found is None
    elif isinstance(error, OutcomeUnknown):
        assert (found is not None) == (keyed or method in ("GET", "HEAD"))
    else:
        assert found is not None


@given(METHODS, st.booleans(), ERRORS, st.integers(1, 100), st.floats(0, 100), st.floats(0, 1))
def test_a_policy_only_takes_away_and_waits_longer(
    method: str, keyed: bool, error: HourwheelError, tries: int, spent_s: float, chance: float
) -> None:
    """It never sends what the contract does not let it send, nor sooner, nor past its bounds."""
    policy = Retry(tries_max=4, total_s=20.0, first_wait_s=0.2, wait_max_s=3.0)
    found = policy.next_try(method, keyed, error, tries=tries, spent_s=spent_s, chance=chance)
    least = next_try(method, keyed, error)
    if found is None:
        return
    assert least is not None
    assert found.another == least.another
    assert least.after_s <= found.after_s <= max(least.after_s, 3.0)
    assert tries < 4
    assert spent_s + found.after_s <= 20.0


@pytest.mark.parametrize(
    ("path", "one"),
    [
        ("/v1/node/drain", True),
        ("/v1/cluster/snapshot", True),
        ("/v1/messages/0A?ledger=false&consistency=local", True),
        ("/metrics", True),
        ("/v1/messages/0A?ledger=false", False),
        ("/v1/topics/consistency=local", False),
        ("/v1/cluster", False),
    ],
)
def test_requests_about_one_node(path: str, one: bool) -> None:
    """To ask another one would answer another question."""
    assert asks_one_node(path) == one


def test_waits_double_up_to_a_bound() -> None:
    """A node that asks for more gets it."""
    policy = Retry(tries_max=9)

    def wait_s(tries: int, error: HourwheelError = AWAY, chance: float = 1.0) -> float:
        found = policy.next_try("GET", False, error, tries=tries, spent_s=0.0, chance=chance)
        assert found is not None
        return found.after_s

    assert [wait_s(tries) for tries in (1, 2, 3, 8)] == [0.1, 0.2, 0.4, 5.0]
    assert wait_s(3, chance=0.0) == 0.2
    assert wait_s(1, said("disk-full", 10.0)) == 10.0


def test_a_doubt_stays() -> None:
    """A later try that is refused says nothing of the first."""
    assert effect_of_all(True, Effect.REFUSED) is Effect.UNKNOWN
    assert effect_of_all(False, Effect.REFUSED) is Effect.REFUSED
