"""A retry policy: each field's limits, and what is made of what is left out."""

from typing import Any

import pytest

from api.contract.checker import Fault
from api.contract.retry import read_message_retry, read_topic_retry, show_retry
from api.port.port import RETRY_DEFAULTS, RetryPolicy

_SENT = {"max_attempts": 3, "min_backoff": "250ms", "max_backoff": "1h", "max_age": "2d"}


def test_what_is_sent_arrives_in_milliseconds() -> None:
    """All fields, some, or none."""
    whole = {"max_attempts": 3, "min_backoff_ms": 250, "max_backoff_ms": 3_600_000, "max_age_ms": 172_800_000}
    assert read_message_retry(_SENT) == read_topic_retry(_SENT, whole=True) == whole
    assert read_message_retry({"max_age": 0}) == {"max_age_ms": 0}
    assert read_message_retry({}) == {}


def test_null_takes_away_in_a_patch_only() -> None:
    """In a PUT it is the same as leaving out; a message has nothing to take away."""
    assert read_topic_retry({"max_age": None, "max_attempts": 2}, whole=False) == {
        "max_age_ms": None,
        "max_attempts": 2,
    }
    assert read_topic_retry({"max_age": None, "max_attempts": 2}, whole=True) == {"max_attempts": 2}
    with pytest.raises(Fault, match="leave the field out"):
        read_message_retry({"max_attempts": None})


@pytest.mark.parametrize(
    "sent",
    [
        {"max_attempts": 1, "min_backoff": 1, "max_backoff": 1},
        {"max_attempts": 1000, "min_backoff": "7d", "max_backoff": "7d", "max_age": "3650d"},
    ],
)
def test_at_the_limits(sent: dict[str, Any]) -> None:
    """Both ends of each range are taken."""
    assert read_message_retry(sent)["max_attempts"] == sent["max_attempts"]


@pytest.mark.parametrize(
    ("sent", "code", "pointers", "says"),
    [
        ({"max_attempts": 0}, "invalid-field", ["/max_attempts"], "1 to 1000"),
        ({"max_attempts": 1001}, "invalid-field", ["/max_attempts"], "1 to 1000"),
        ({"max_attempts": "3"}, "invalid-field", ["/max_attempts"], "whole number"),
        ({"min_backoff": 0}, "invalid-field", ["/min_backoff"], "1ms to 7d"),
        ({"max_backoff": "8d"}, "invalid-field", ["/max_backoff"], "1ms to 7d"),
        ({"max_age": "3651d"}, "invalid-field", ["/max_age"], "3650d"),
        ({"max_age": -1}, "invalid-field", ["/max_age"], "not negative"),
        ({"min_backoff": "2h", "max_backoff": "1h"}, "invalid-field", ["/min_backoff"], r"max_backoff \(1h\), got 2h"),
        ({"max_attempt": 3}, "unknown-field", ["/max_attempt"], 'did you mean "max_attempts"'),
        ({"max_attempts": 0, "x": 1}, "invalid-field", ["/max_attempts", "/x"], "1 to 1000"),
        ([], "invalid-field", [""], "an object, got an array"),
        (5, "invalid-field", [""], "an object, got a whole number"),
    ],
)
def test_past_the_limits(sent: Any, code: str, pointers: list[str], says: str) -> None:
    """Every fault is named, with its limit."""
    for read in (read_message_retry, lambda value: read_topic_retry(value, whole=True)):
        with pytest.raises(Fault, match=says) as caught:
            read(sent)
        assert caught.value.code == code
        assert [each.below for each in (caught.value, *caught.value.also)] == pointers


def test_a_policy_is_shown_as_durations() -> None:
    """Defaults stand in for what is left open."""
    defaults = {"max_attempts": 16, "min_backoff": "1s", "max_backoff": "1h", "max_age": "0s"}
    assert show_retry(RETRY_DEFAULTS) == show_retry(RetryPolicy()) == defaults
    assert show_retry(RetryPolicy(max_attempts=3, max_age_ms=90_000)) == {
        **defaults,
        "max_attempts": 3,
        "max_age": "90s",
    }
