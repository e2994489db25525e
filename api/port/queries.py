"""Queries at the port over many messages: how many there are, and the dead ones.

A part of the service port (api/port/port.py), whose rules hold here too.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from storage.format.states import ENDED_STANDINGS, LIVE_STANDINGS, OPEN_STANDINGS, words

#: States of an open message. A count takes these by default.
OPEN_STATES: Final = words(OPEN_STANDINGS)
#: States of any message.
STATES: Final = words(LIVE_STANDINGS) + words(ENDED_STANDINGS)
#: Most buckets of a histogram whose step the client gives, and of one whose step the leader chooses.
HISTOGRAM_BUCKETS_MAX: Final = 1_000
HISTOGRAM_CHOSEN_MAX: Final = 60


class CountQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages in one of `states`, with the tag `tag`, that are due in [from_ms, to_ms). The due time is the present
    one, which a retry moves, not the one that the client asked for. A field that is None restricts nothing."""

    topic: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    states: tuple[str, ...] = OPEN_STATES  # of storage.format.states.STANDINGS


class ListQuery(CountQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the messages that a CountQuery takes. `cursor`: where the page begins, None for the first page. With
    `body` False the messages come without their bodies."""

    limit: int = 100  # 1 .. 1,000
    cursor: str | None = None
    body: bool = True


class HistogramBucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` messages whose due time is in the step that begins at `from_ms`."""

    from_ms: int
    count: int


class Histogram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages by due time. The buckets are `step_ms` long, in the order of their times, without a hole."""

    step_ms: int
    buckets: Sequence[HistogramBucket]


class WheelQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hour of the wheel that holds `at_ms`, None for the present one. With `topic` only its messages count."""

    at_ms: int | None = None
    topic: str | None = None


class WheelSecond(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A second with messages, since 1970: how many of them are open, and how many units it has."""

    second: int
    open_units: int
    units: int


class WheelHour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hour that begins at `hour_ms`, and its seconds with messages, ascending. `tick` is the second, since 1970,
    that the leader dispatches."""

    hour_ms: int
    tick: int
    seconds: Sequence[WheelSecond]


class DeadQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead messages of a topic with the tag `tag`. The due time that their client asked for is in [from_ms, to_ms). A
    field that is None restricts nothing."""

    topic: str
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    limit: int = 100  # 1 .. 1,000
    cursor: str | None = None


class DeadMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dead letter. `reason` is a word of node.port.failure_code.REASONS or `http-<status>`."""

    id: str
    due_ms: int
    asked_due_ms: int
    died_ms: int
    reason: str
    attempts: int
    tags: Sequence[str] = ()
    key: str | None = None


class DeadPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of dead letters, ordered by hour, then by arrival in the hour. `next_cursor` None: the last page."""

    items: Sequence[DeadMessage]
    next_cursor: str | None = None


class BulkResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a command over many messages: how many matched, and how many were changed. `index` is the log index
    of its last entry (0: nothing was proposed)."""

    matched: int
    changed: int
    index: int
