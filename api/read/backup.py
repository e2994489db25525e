"""Reads the fields of a request for a backup."""

from typing import Final

from api.contract.checker import Fault, wrong_type

_CHARS_MAX: Final = 1024
_NAME_BYTES_MAX: Final = 255  # the limit of file systems


def read_directory(value: object) -> str:
    """Return the path of a directory on the node's disk. Raises `Fault`."""
    if type(value) is not str:
        raise wrong_type('a directory such as "nightly"', value)
    if not value or len(value) > _CHARS_MAX or "\0" in value:
        raise Fault("invalid-field", f"a directory has 1 to {_CHARS_MAX} characters, none of them NUL")
    if any(len(name.encode()) > _NAME_BYTES_MAX for name in value.split("/")):
        raise Fault("invalid-field", f"each name between slashes has at most {_NAME_BYTES_MAX} bytes")
    return value
