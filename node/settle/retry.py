"""Decides the fate of a message whose hand-over failed: it is tried again at some time, or given up. Pure: the caller
gives it the time and the random numbers.

    failed hand-over n of a message ---- n >= max_attempts ----------------------> dead, by the failure's own code
                     |
                     '-- next due = now + wait --- asked due + max_age or later --> dead, `max-age`
                                     |
                                     '--> moved to the next due time

`wait` doubles with each failure from `min_backoff` up to `max_backoff`. A random part of up to a quarter is added, so
that messages which failed together do not come back together. The result is rounded up to tenths of a second. So if a
receiver refuses all messages, some of them still come back at the same time, and share one look at their records. The
receiver may ask for a longer wait (Retry-After), which counts up to `max_backoff`. A consumer that gives a message back
(nack) may name the wait.

A code says why a hand-over failed (node/port/failure_code.py). `reason_of` turns it into a word for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from api.port.port import RETRY_DEFAULTS
from node.port.failure_code import MAX_AGE, REASONS

JITTER: Final = 0.25
"""At most this part of a wait is added to it by chance."""

GATHER_MS: Final = 100
"""Due times of retries are rounded up to multiples of this. For short waits they are rounded up to half of the most
that chance may add, if that is less."""

_DOUBLINGS_MAX: Final = 40
"""Any backoff has reached its maximum by then (1 ms doubled 40 times is 34 years)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The retry policy of one message: `api.port.port.RetryPolicy` with every field set. If `max_age_ms` is 0, there is
    no limit of age."""

    max_attempts: int
    min_backoff_ms: int
    max_backoff_ms: int
    max_age_ms: int


@dataclass(frozen=True, slots=True)
class Retry:
    """The decision to try a message again: it is due again at `due_ms`."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Dead:
    """The decision to give a message up, for the reason `code`."""

    code: int


_DEFAULTS: Final[Mapping[str, int]] = msgspec.structs.asdict(RETRY_DEFAULTS)


def effective(settings: Mapping[str, Any], extension: Mapping[str, Any]) -> Policy:
    """The policy of a message, field by field: from its record (`extension["retry"]`), else from its topic
    (`settings["retry"]`), else the default. Both maps hold only fields that were sent."""
    return Policy(**{**_DEFAULTS, **(settings.get("retry") or {}), **(extension.get("retry") or {})})


def decide(
    policy: Policy,
    *,
    attempts: int,
    code: int,
    asked_due_ms: int,
    now_ms: int,
    jitter: float,
    retry_after_ms: int | None = None,
    delay_ms: int | None = None,
) -> Retry | Dead:
    """Decide the fate of a message whose hand-over number `attempts` failed for the reason `code`. The number begins at
    1. It counts this hand-over and ended leases, and no hand-over before a redrive.

    `jitter` in [0, 1) is drawn by the caller. `retry_after_ms` is the least wait that the receiver asked for,
    `delay_ms` the exact wait that a consumer named. Neither gives a message more attempts.
    """
    if attempts >= policy.max_attempts:
        return Dead(code)
    if delay_ms is not None:
        due_ms = now_ms + delay_ms
    else:
        asked_ms = min(retry_after_ms or 0, policy.max_backoff_ms)
        due_ms = max(_due_ms(policy, attempts, jitter, now_ms), now_ms + asked_ms)
    if too_old(policy, asked_due_ms, due_ms):
        return Dead(MAX_AGE)
    return Retry(due_ms)


def _due_ms(policy: Policy, attempts: int, jitter: float, now_ms: int) -> int:
    """The due time after the backoff and a random part, rounded up as GATHER_MS says. It is later than the end of the
    backoff by at most JITTER times the backoff."""
    doubled = policy.min_backoff_ms << min(max(attempts, 1) - 1, _DOUBLINGS_MAX)
    backoff_ms = min(policy.max_backoff_ms, doubled)
    most_ms = int(backoff_ms * JITTER)
    step_ms = max(1, min(GATHER_MS, most_ms // 2))
    due_ms = now_ms + backoff_ms + int(jitter * max(0, most_ms - step_ms))
    return due_ms + -due_ms % step_ms


def too_old(policy: Policy, asked_due_ms: int, at_ms: int) -> bool:
    """True if the message's `max_age_ms` has passed at `at_ms`, so that no attempt may begin then."""
    return policy.max_age_ms > 0 and at_ms - asked_due_ms >= policy.max_age_ms


def reason_of(code: int) -> str:
    """The word for a code: `http-503`, `timeout`, and so on. `code-<n>` for a code of a later version, "" for none."""
    if 100 <= code <= 599:
        return f"http-{code}"
    return REASONS.get(code, f"code-{code}") if code else ""


def describe(code: int, error: str) -> str:
    """A failure as one line for people: the word for its code, and its error text if there is one."""
    reason = reason_of(code)
    return f"{reason}: {error}" if reason and error else reason or error
