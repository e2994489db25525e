"""Records as read back, for tests that need few fields of them."""

from typing import Any

from storage.record.record import Record


def record(**fields: Any) -> Record:
    """A record with these fields, the others empty."""
    blank: dict[str, Any] = dict.fromkeys(Record.__struct_fields__, 0)
    blank |= {"tags": (), "headers": {}, "key": b"", "content_type": "", "target": b"", "order_key": b""}
    return Record(**{**blank, "extension": {}, "body": b"{}", **fields})
