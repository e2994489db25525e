"""The base of every observation: its moment."""

import msgspec


class Seen(msgspec.Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Base of all events. `mono_ms` orders them. `wall_ms` is the Unix epoch, floored."""

    mono_ms: float
    wall_ms: int
