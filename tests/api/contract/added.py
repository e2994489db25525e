"""A field that a test adds to those of a message, for as long as the test runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from api.contract.field import Field
from api.contract.fields import MESSAGE
from api.contract.kind import text
from api.port.port import MessageIn


def note(name: str = "note", bytes_max: int = 16, **more: object) -> Field:
    """An optional text."""
    return Field(name, text(bytes_max), "Words for people.", "for Ada", "0.2.0", **more)  # type: ignore[arg-type]


def extension_of(message: MessageIn) -> dict[str, Any]:
    """The fields of its record's extension, as they are kept."""
    return msgspec.msgpack.decode(message.extension) if message.extension else {}


@contextmanager
def added(*fields: Field) -> Iterator[None]:
    """These stand behind the fields of the build, and are gone at the end."""
    before = list(MESSAGE.rows.values())
    MESSAGE.set([*before, *fields])
    try:
        yield
    finally:
        MESSAGE.set(before)
