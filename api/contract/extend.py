"""Field reader of `extend`: how a message extends the holder of its key."""

from typing import Any, Final

from api.contract import schema
from api.contract.checker import Fault, read_choice, read_duration
from api.contract.kind import Kind, plain
from api.contract.object import Fields, read_inner
from api.port.duration import render_duration
from api.port.port import EXTEND_DEFAULTS, Extend

MAX_WAIT_MIN_MS: Final = 1_000
MAX_WAIT_MAX_MS: Final = 3650 * 86_400_000
#: Whose content the holder has then: that of the newest request, or still its own.
BODIES: Final = ("last", "first")


def _read_max_wait(value: object) -> int:
    max_wait_ms = read_duration(value)
    if not MAX_WAIT_MIN_MS <= max_wait_ms <= MAX_WAIT_MAX_MS:
        raise Fault("invalid-field", f"max_wait is 1s to 3650d, got {render_duration(max_wait_ms)}")
    return max_wait_ms


_FIELDS: Final = Fields({"max_wait": _read_max_wait, "body": lambda value: read_choice(value, BODIES)})


def read_extend(value: object) -> Extend:
    """Return a checked `extend`. What it leaves out has the default."""
    sent = read_inner(value, _FIELDS)
    return Extend(sent.get("max_wait", EXTEND_DEFAULTS.max_wait_ms), sent.get("body", BODIES[0]) == BODIES[1])


_SCHEMA: Final[schema.Schema] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "max_wait": schema.duration("1s to 3650d", "It is due at most so long after it was first scheduled."),
        "body": {
            **schema.said(
                schema.choice(BODIES), "`last`: all but its id and creation becomes new. `first`: its due time."
            ),
            "default": BODIES[0],
        },
    },
}

EXTEND: Final = Kind(plain(read_extend), dict[str, Any], 40, _SCHEMA)
"""The field of a message."""
