"""The command Once names the keys of requests that an entry carries out one time only.

Such a request is a section of its own in the same entry. It is void if an answer is kept under its key already.
Otherwise its answer is kept, in the same entry as its effect. Of two in one entry the first counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section
from storage.tables.idempotency import KEY_BYTES_MAX

#: Bytes of each text of a row, so that a kept answer has at most ROW_BYTES_MAX (storage/tables/idempotency.py).
TEXT_BYTES_MAX: Final = 255
_FINGERPRINT_BYTES: Final = 16


class KeyedRequest(NamedTuple):
    """A request with an `Idempotency-Key`. `call` is the name of what it asks for, `fingerprint` stands for its content
    (16 bytes), and `principal` is its client. `note` is a text that its answer needs."""

    namespace: str
    key: bytes
    call: str
    fingerprint: bytes
    principal: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Once:
    """The keyed requests of an entry, by the numbers of their sections within the entry. The first section is 0."""

    requests: dict[int, KeyedRequest]

    def pack(self) -> Packed:
        """The command as a section."""
        rows = [[number, *request] for number, request in self.requests.items()]
        return Kind.ONCE, len(rows), [pack_map({"requests": rows})]

    @classmethod
    def unpack(cls, section: Section) -> Once:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        rows = filled(reader.map().get("requests"), list, "requests")
        reader.end()
        if len(rows) != section.rows:
            raise EntryRefused(f"{len(rows)} keyed requests in a section of {section.rows}")
        requests: dict[int, KeyedRequest] = {}
        for row in rows:
            if len(filled(row, list, "request")) != 1 + len(KeyedRequest._fields):
                raise EntryRefused(f"a keyed request of {len(row)} fields")
            number = filled(row[0], int, "section")
            if number in requests:
                raise EntryRefused(f"section {number} has two keys")
            requests[number] = _request(row[1:])
        return cls(requests)


def _request(fields: list[object]) -> KeyedRequest:
    kinds = (str, bytes, str, bytes, str, str)
    request = KeyedRequest._make(
        filled(value, kind, name) for value, kind, name in zip(fields, kinds, KeyedRequest._fields, strict=True)
    )
    if not 1 <= len(request.key) <= KEY_BYTES_MAX:
        raise EntryRefused(f"a key of {len(request.key)} bytes; 1 to {KEY_BYTES_MAX} expected")
    if len(request.fingerprint) != _FINGERPRINT_BYTES:
        raise EntryRefused(f"a fingerprint of {len(request.fingerprint)} bytes")
    for text in (request.namespace, request.call, request.principal, request.note):
        if len(text.encode()) > TEXT_BYTES_MAX or "\0" in text:
            raise EntryRefused(f"a text of {len(text.encode())} bytes, or with a zero byte")
    return request
