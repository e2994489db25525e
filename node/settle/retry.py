"""What becomes of a message whose hand-over failed: tried again, and when, or given up. Pure; the caller brings the
time and the chance.

    failed hand-over n of a message ---- n >= max_attempts ----------------------> dead, by the failure's own code
                     |
                     '-- next due = now + wait --- asked due + max_age or later --> dead, `max-age`
                                     |
                                     '--> moved to the next due time

`wait` doubles with each failure from `min_backoff` up to `max_backoff`, and up to a quarter of it is added by chance,
so that messages which failed together do not come back together. Chance chooses between tenths of a second: a receiver
that refuses them all has a few come back at a time, which cost one look at them, not each one of its own. Who failed
may ask for more (Retry-After), up to `max_backoff`; who gives a message back (nack) may name the wait.

A code says why a hand-over failed (node/port/failure_code.py); people read `reason_of` it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from api.port.port import RETRY_DEFAULTS
from node.port.failure_code import MAX_AGE, REASONS

JITTER: Final = 0.25
"""The part of a wait that chance adds at most."""

GATHER_MS: Final = 100
"""Where chance chooses, due times are multiples of this, or of half of what it adds at most if that is less."""

_DOUBLINGS_MAX: Final = 40
"""Any backoff has reached its maximum by then (1 ms doubled 40 times is 34 years)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What counts for one message: `api.port.port.RetryPolicy` with nothing left open. `max_age_ms` 0: no limit."""

    max_attempts: int
    min_backoff_ms: int
    max_backoff_ms: int
    max_age_ms: int


@dataclass(frozen=True, slots=True)
class Retry:
    """The message is due again."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Dead:
    """The message is given up for this reason."""

    code: int


_DEFAULTS: Final[Mapping[str, int]] = msgspec.structs.asdict(RETRY_DEFAULTS)


def effective(settings: Mapping[str, Any], extension: Mapping[str, Any]) -> Policy:
    """The policy of a message: what it says itself (`extension["retry"]` of its record), then what its topic says
    (`settings["retry"]`), then the defaults, field by field. Both maps hold only fields that were sent."""
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
    """After the failure of hand-over number `attempts` (from 1; it and ended leases are counted, those before a redrive
    not) for the reason `code`.

    `jitter` in [0, 1) is drawn by the caller. `retry_after_ms` is the least wait that the receiver asked for,
    `delay_ms` the exact one that a consumer named; neither changes whether the message is given up for its attempts.
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
    """After the backoff, and before all that chance may add is over."""
    doubled = policy.min_backoff_ms << min(max(attempts, 1) - 1, _DOUBLINGS_MAX)
    backoff_ms = min(policy.max_backoff_ms, doubled)
    most_ms = int(backoff_ms * JITTER)
    step_ms = max(1, min(GATHER_MS, most_ms // 2))
    due_ms = now_ms + backoff_ms + int(jitter * max(0, most_ms - step_ms))
    return due_ms + -due_ms % step_ms


def too_old(policy: Policy, asked_due_ms: int, at_ms: int) -> bool:
    """Whether an attempt may not begin at this time any more."""
    return policy.max_age_ms > 0 and at_ms - asked_due_ms >= policy.max_age_ms


def reason_of(code: int) -> str:
    """The word for a code: `http-503`, `timeout`, ...; `code-<n>` for one of a later version; "" for none."""
    if 100 <= code <= 599:
        return f"http-{code}"
    return REASONS.get(code, f"code-{code}") if code else ""


def describe(code: int, error: str) -> str:
    """A failure as one line for people: the reason, and what was said, if anything was."""
    reason = reason_of(code)
    return f"{reason}: {error}" if reason and error else reason or error
