"""Reads the header `Idempotency-Key`, and makes the fingerprint of the request that it came with."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from api.port.forward import REQUEST_KEY_MAX, RequestKey
from api.port.problem import FieldFault, Problem

HEADER: Final = "Idempotency-Key"
_FINGERPRINT_OF: Final = b"request"
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_request_key(sent: Sequence[str], *facts: str, body: bytes) -> RequestKey:
    """Return the key of a request whose headers of this name are `sent`. `facts` are what the request says beside its
    body. Raises `invalid-field`."""
    check_one(sent)
    key = sent[0].strip()
    if not 1 <= len(key) <= REQUEST_KEY_MAX or not (key.isascii() and key.isprintable()):
        raise key_fault(f"{HEADER} has 1 to {REQUEST_KEY_MAX} characters of printable ASCII, got {len(key)}")
    return RequestKey(key, _fingerprint(facts, body))


def check_one(sent: Sequence[str]) -> None:
    """Raise `invalid-field` if a request has the header more than one time."""
    if len(sent) > 1:
        raise key_fault(f"{HEADER} stands in the request {len(sent)} times; send it once")


def key_fault(detail: str) -> Problem:
    """The refusal of a request for what its `Idempotency-Key` is, or where it stands."""
    return Problem("invalid-field", detail, errors=[FieldFault("", detail, header=HEADER)])


def _fingerprint(facts: Sequence[str], body: bytes) -> bytes:
    """Return 16 bytes that are equal for requests that say the same. The order of a body's members, and white space
    between them, make no difference."""
    members: list[tuple[str, bytes]] = []
    try:
        members = sorted((name, bytes(value)) for name, value in _MEMBERS.decode(body).items()) if body else []
    except msgspec.DecodeError:
        members = [("", body)]  # it is refused, so its fingerprint is never kept
    return blake2b(msgspec.msgpack.encode((facts, members)), digest_size=16, person=_FINGERPRINT_OF).digest()
