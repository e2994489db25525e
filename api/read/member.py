"""Reads the fields of a member."""

import re
from typing import Final

from api.contract.checker import Fault, wrong_type

#: Ids stand in files, logs and URLs, so they are plain.
NODE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
#: Bounded because a hello carries the addresses of all members.
ADDRESS_CHARS_MAX: Final = 200
#: An entry has its version in one byte.
LEVEL_MAX: Final = 255


def read_new_id(value: object) -> str:
    """Return the id of a node to add."""
    if type(value) is not str:
        raise wrong_type('a node\'s id such as "n4"', value)
    if NODE_ID.fullmatch(value) is None:
        raise Fault("invalid-field", "a node's id is 1 to 64 letters, digits, '-', '_' or '.'")
    return value


def read_level(value: object) -> int:
    """Return a level of the cluster, from 1 to LEVEL_MAX. Raises `Fault`."""
    if type(value) is not int:
        raise wrong_type("a level such as 2", value)
    if not 1 <= value <= LEVEL_MAX:
        raise Fault("invalid-field", f"1 to {LEVEL_MAX} is expected")
    return value


def read_address(value: object) -> str:
    """Return an address as `host:port`, at which other nodes reach the node. Raises `Fault`."""
    if type(value) is not str:
        raise wrong_type('host:port such as "10.0.0.4:7500"', value)
    host, colon, port = value.rpartition(":")
    fits = host and colon and port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16
    if not fits or len(value) > ADDRESS_CHARS_MAX or not value.isprintable() or " " in value:
        raise Fault("invalid-field", f"host:port is expected, at most {ADDRESS_CHARS_MAX} characters")
    return value
