"""The base of structs that cross a border, the widths of their numbers, and the error for bad columns.

Structs of api/port cross too, as maps of their fields.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

U64 = Annotated[int, Meta(ge=0)]  # the codec writes no more than 64 bits
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
I64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
U16 = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]
U32 = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
#: Up to the end of the year 9999, which can be written.
Ms = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]


class Plain(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The base of structs that cross. A field holds numbers, text, bytes, or lists, dicts and structs of these. On the
    wire the struct is a list of its fields."""


class BadColumns(ValueError):
    """The columns of a struct do not fit together. The message names the struct and the column."""
