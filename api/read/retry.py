"""The checks of a `retry` policy, of a topic or of one message: when a failed hand-over is tried again."""

from collections.abc import Callable
from typing import Any, Final

from api.port.duration import render_duration
from api.port.port import RETRY_DEFAULTS, RetryPolicy
from api.read.document import Fields, read_inner
from api.read.field import Fault, read_count, read_duration

ATTEMPTS_MAX: Final = 1_000
BACKOFF_MAX_MS: Final = 7 * 86_400_000
AGE_MAX_MS: Final = 3650 * 86_400_000

#: Name on the wire -> name in `RetryPolicy`.
_NAMES: Final = {
    "max_attempts": "max_attempts",
    "min_backoff": "min_backoff_ms",
    "max_backoff": "max_backoff_ms",
    "max_age": "max_age_ms",
}


def _read_attempts(value: object) -> int:
    return read_count(value, 1, ATTEMPTS_MAX)


def _read_backoff(value: object) -> int:
    backoff_ms = read_duration(value)
    if not 1 <= backoff_ms <= BACKOFF_MAX_MS:
        raise Fault("invalid-field", f"a backoff is 1ms to 7d, got {render_duration(backoff_ms)}")
    return backoff_ms


def _read_age(value: object) -> int:
    age_ms = read_duration(value)
    if age_ms > AGE_MAX_MS:
        raise Fault("invalid-field", f"max_age is at most 3650d, or 0 for none, got {render_duration(age_ms)}")
    return age_ms


_CHECKERS: Final[dict[str, Callable[[Any], int]]] = {
    "max_attempts": _read_attempts,
    "min_backoff": _read_backoff,
    "max_backoff": _read_backoff,
    "max_age": _read_age,
}
_OF_MESSAGE: Final = Fields(_CHECKERS)


def _nullable(checker: Callable[[Any], int]) -> Callable[[Any], int | None]:
    return lambda value: None if value is None else checker(value)


_OF_TOPIC: Final = Fields({name: _nullable(checker) for name, checker in _CHECKERS.items()})


def read_message_retry(value: object) -> RetryPolicy:
    """What a message says about its retries; what it leaves out is its topic's."""
    return RetryPolicy(**_read(value, _OF_MESSAGE))


def read_topic_retry(value: object, *, whole: bool) -> dict[str, int | None]:
    """The fields of a topic's policy that were sent, by `RetryPolicy`'s names. `whole` as in `read_topic_target`."""
    sent = _read(value, _OF_TOPIC)
    return {name: number for name, number in sent.items() if number is not None} if whole else sent


def _read(value: object, fields: Fields) -> dict[str, Any]:
    sent = read_inner(value, fields)
    low_ms, high_ms = sent.get("min_backoff"), sent.get("max_backoff")
    if low_ms is not None and high_ms is not None and low_ms > high_ms:
        raise Fault(
            "invalid-field",
            f"min_backoff is at most max_backoff ({render_duration(high_ms)}), got {render_duration(low_ms)}",
            "/min_backoff",
        )
    return {_NAMES[name]: number for name, number in sent.items()}


def show_retry(policy: RetryPolicy) -> dict[str, Any]:
    """A policy as it goes out, the defaults where it leaves something open."""
    shape: dict[str, Any] = {}
    for name, field in _NAMES.items():
        number = getattr(policy, field)
        number = getattr(RETRY_DEFAULTS, field) if number is None else number
        shape[name] = number if name == "max_attempts" else render_duration(number)
    return shape


def show_own_retry(policy: RetryPolicy) -> dict[str, Any]:
    """What a message says itself, and nothing else."""
    return {name: show for name, show in show_retry(policy).items() if getattr(policy, _NAMES[name]) is not None}
