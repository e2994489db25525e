"""Field readers of a `retry` policy, of a topic or of one message: when a failed delivery is tried again."""

from collections.abc import Callable
from typing import Any, Final

from api.contract import schema
from api.contract.checker import Fault, read_count, read_duration
from api.contract.kind import Kind, plain
from api.contract.object import Fields, or_null, read_inner
from api.port.duration import render_duration
from api.port.port import RETRY_DEFAULTS, RetryPolicy

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
_OF_TOPIC: Final = Fields({name: or_null(checker) for name, checker in _CHECKERS.items()})


def read_message_retry(value: object) -> dict[str, int]:
    """Return a message's retry settings under `RetryPolicy`'s names. Settings that it leaves out are its topic's."""
    sent = _read(value, _OF_MESSAGE)
    return {field: sent[name] for name, field in _NAMES.items() if name in sent}


def read_topic_retry(value: object, *, whole: bool) -> dict[str, int | None]:
    """Return the sent fields of a topic's policy under `RetryPolicy`'s names. `whole` is as in `read_topic_target`."""
    sent = _read(value, _OF_TOPIC)
    return {_NAMES[name]: number for name, number in sent.items() if not whole or number is not None}


def _read(value: object, fields: Fields) -> dict[str, Any]:
    sent = read_inner(value, fields)
    low_ms, high_ms = sent.get("min_backoff"), sent.get("max_backoff")
    if low_ms is not None and high_ms is not None and low_ms > high_ms:
        raise Fault(
            "invalid-field",
            f"min_backoff is at most max_backoff ({render_duration(high_ms)}), got {render_duration(low_ms)}",
            "/min_backoff",
        )
    return sent


def show_retry(policy: RetryPolicy) -> dict[str, Any]:
    """Return a topic's policy as answers show it, with RETRY_DEFAULTS for fields that it does not set."""
    shape: dict[str, Any] = {}
    for name, field in _NAMES.items():
        number = getattr(policy, field)
        shape[name] = _show(name, getattr(RETRY_DEFAULTS, field) if number is None else number)
    return shape


def _show(name: str, number: int) -> Any:
    return number if name == "max_attempts" else render_duration(number)


#: The schema of a sent policy, of a topic or of one message.
RETRY_SCHEMA: Final[schema.Schema] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "max_attempts": schema.said(schema.whole(1, ATTEMPTS_MAX), "After so many attempts the message is dead."),
        "min_backoff": schema.duration("1ms to 7d", "The wait after the first failure."),
        "max_backoff": schema.duration("1ms to 7d", "The wait doubles up to this."),
        "max_age": schema.duration("0 to 3650d", "No attempt starts so long after the due time; 0 for no limit."),
    },
}


def _shown(kept: dict[str, int]) -> dict[str, Any] | None:
    """Return a message's own retry settings as answers show them, without those of its topic. None if it has none."""
    return {name: _show(name, kept[field]) for name, field in _NAMES.items() if field in kept} or None


#: A message's own policy.
RETRY: Final = Kind(plain(read_message_retry), dict[str, Any], 80, RETRY_SCHEMA, show=_shown)
