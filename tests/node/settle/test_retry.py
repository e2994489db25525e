"""What becomes of a message whose hand-over failed."""

from hypothesis import given
from hypothesis import strategies as st

from node.port.failure_code import ERROR_BYTES_MAX, MAX_AGE, NACKED, REASONS, TIMEOUT, error_text
from node.settle.retry import Dead, Policy, Retry, decide, describe, effective, reason_of

NOW_MS = 1_700_000_000_000
POLICY = Policy(max_attempts=4, min_backoff_ms=1_000, max_backoff_ms=3_000, max_age_ms=0)

policies = st.builds(
    Policy,
    max_attempts=st.integers(1, 1_000),
    min_backoff_ms=st.integers(1, 7 * 86_400_000),
    max_backoff_ms=st.integers(1, 7 * 86_400_000),
    max_age_ms=st.integers(0, 30 * 86_400_000),
)


def wait_ms(attempts: int, policy: Policy = POLICY, jitter: float = 0.0, **more: int) -> int:
    """The wait after this failure, which must lead to a retry."""
    fate = decide(policy, attempts=attempts, code=TIMEOUT, asked_due_ms=NOW_MS, now_ms=NOW_MS, jitter=jitter, **more)
    assert isinstance(fate, Retry)
    return fate.due_ms - NOW_MS


def test_the_wait_doubles_up_to_its_maximum() -> None:
    """1 s, 2 s, then 3 s and no more."""
    assert [wait_ms(attempts) for attempts in (1, 2, 3)] == [1_000, 2_000, 3_000]


def test_the_last_attempt_is_the_last() -> None:
    """Dead by the failure's own reason."""
    fate = decide(POLICY, attempts=4, code=503, asked_due_ms=NOW_MS, now_ms=NOW_MS, jitter=0.0)
    assert fate == Dead(503)


def test_a_receiver_may_ask_for_more_but_not_for_ever() -> None:
    """Retry-After lengthens a wait up to max_backoff, and shortens none."""
    assert wait_ms(1, retry_after_ms=2_500) == 2_500
    assert wait_ms(1, retry_after_ms=60_000) == 3_000
    assert wait_ms(2, retry_after_ms=1) == 2_000


def test_a_named_wait_is_taken_as_it_is_but_does_not_add_attempts() -> None:
    """A nack may name any wait; the message is dead when its attempts are used up all the same."""
    assert wait_ms(1, delay_ms=0) == 0
    assert wait_ms(3, delay_ms=90_000) == 90_000
    fate = decide(POLICY, attempts=4, code=NACKED, asked_due_ms=NOW_MS, now_ms=NOW_MS, jitter=0.0, delay_ms=0)
    assert fate == Dead(NACKED)


def test_no_attempt_begins_at_the_maximum_age() -> None:
    """The age counts from the asked due time to the next attempt."""
    aging = Policy(max_attempts=9, min_backoff_ms=1_000, max_backoff_ms=1_000, max_age_ms=5_000)
    asked_ms = NOW_MS - 4_000
    assert decide(aging, attempts=1, code=500, asked_due_ms=asked_ms + 1, now_ms=NOW_MS, jitter=0.0) == Retry(
        NOW_MS + 1_000
    )
    assert decide(aging, attempts=1, code=500, asked_due_ms=asked_ms, now_ms=NOW_MS, jitter=0.0) == Dead(MAX_AGE)


@given(policies, st.integers(1, 70_000), st.floats(0, 1, exclude_max=True))
def test_every_wait_is_within_its_bounds(policy: Policy, attempts: int, jitter: float) -> None:
    """At least the least backoff (or the largest, where that is smaller), at most the largest and a quarter."""
    fate = decide(policy, attempts=attempts, code=500, asked_due_ms=NOW_MS, now_ms=NOW_MS, jitter=jitter)
    if attempts >= policy.max_attempts:
        assert fate == Dead(500)
    elif isinstance(fate, Retry):
        least = min(policy.min_backoff_ms, policy.max_backoff_ms)
        assert least <= fate.due_ms - NOW_MS <= policy.max_backoff_ms * 1.25
        assert not policy.max_age_ms or fate.due_ms - NOW_MS < policy.max_age_ms
    else:
        assert fate == Dead(MAX_AGE)
        assert policy.max_age_ms


def test_a_message_overrides_its_topic_field_by_field() -> None:
    """Message, then topic, then defaults."""
    topic = {"mode": "push", "retry": {"max_attempts": 3, "min_backoff_ms": 5}}
    assert effective(topic, {"retry": {"min_backoff_ms": 7}}) == Policy(3, 7, 3_600_000, 0)
    assert effective({"retry": None}, {}) == Policy(16, 1_000, 3_600_000, 0)


def test_reasons_read_as_words() -> None:
    """Every code has a text, an HTTP status too, and one of a later version as well."""
    assert reason_of(503) == "http-503"
    assert reason_of(TIMEOUT) == "timeout"
    assert reason_of(9_999) == "code-9999"
    assert reason_of(0) == ""
    assert len(set(REASONS.values())) == len(REASONS)


def test_a_failure_reads_as_one_line() -> None:
    """The reason first, then what was said."""
    assert describe(503, "busy") == "http-503: busy"
    assert describe(TIMEOUT, "") == "timeout"
    assert describe(0, "what it said") == "what it said"
    assert describe(0, "") == ""


@given(st.text(max_size=2_000))
def test_what_a_failure_said_is_kept_up_to_a_bound(text: str) -> None:
    """Whole characters, at most so many bytes, a prefix of what was said; what is no text does not raise."""
    kept = error_text(text)
    assert len(kept) <= ERROR_BYTES_MAX
    assert text.encode(errors="replace").decode().startswith(kept.decode())
