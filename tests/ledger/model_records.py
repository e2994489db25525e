"""The model's reading of a bucket: every record as a dict of Python numbers, brought to its message one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ledger.bucket import Bucket, Context

Row = dict[str, Any]


def rows_of(array: Any) -> list[Row]:
    """Rows of a structured array as dicts of Python numbers."""
    return [dict(zip(array.dtype.names, row, strict=True)) for row in array.tolist()]


@dataclass
class Message:
    """All that is on record of one message."""

    at: int
    home: int
    unit: Row
    header: Row | None
    settles: list[Row] = field(default_factory=list)  # at home, in file order
    abroad: list[Row] = field(default_factory=list)
    places: list[Row] = field(default_factory=list)
    starts: list[Row] = field(default_factory=list)
    ends: list[Row] = field(default_factory=list)
    receipts: list[Row] = field(default_factory=list)


def messages_of(bucket: Bucket, until_ms: int) -> tuple[dict[int, Message], int, int]:
    """The messages born in the bucket by home, how many records name none of them, and how many are beyond the end."""
    headers = rows_of(bucket.headers) if bucket.headers is not None else None
    origin = bucket.hour << 40 | bucket.first
    messages: dict[int, Message] = {}
    units = rows_of(bucket.units)
    for at, unit in enumerate(units):
        if unit["kind"] and not unit["flags"] & 2:
            messages[origin + at] = Message(at, origin + at, unit, headers[at] if headers else None)
    foreign = beyond = 0

    def named(row: Row) -> Message | None:
        message = messages.get(row["home"])
        if message is None:
            return None
        known = message.header is not None and message.header["size"] > 0
        if known and message.header is not None and message.header["random"] != row["random"]:
            return None
        return message

    for row in rows_of(bucket.deliveries):
        if row["kind"] not in (1, 2):
            continue
        message = named(row)
        if row["at_ms"] > until_ms:
            beyond += 1
        elif message is None:
            foreign += 1
        elif row["kind"] == 1:
            message.starts.append(row)
        else:
            message.ends.append(row)
    for row in rows_of(bucket.receipts):
        message = named(row)
        if message is None:
            foreign += 1
        else:
            message.receipts.append(row)
    for row in rows_of(bucket.settles):
        if not row["what"]:
            continue
        at = row["global_index"] - bucket.first
        if not 0 <= at < len(units):
            foreign += 1
        elif origin + at in messages:
            messages[origin + at].settles.append(row)
    for row in rows_of(bucket.abroad):
        if row["home"] in messages:
            messages[row["home"]].abroad.append(row)
    for row in rows_of(bucket.places):
        if row["home"] in messages:
            messages[row["home"]].places.append(row)
    for message in messages.values():
        message.abroad.sort(key=lambda row: (row["place"], row["order"]))
        message.starts.sort(key=lambda row: (row["term"], row["attempt"], row["at_ms"], row["node"]))
    return messages, foreign, beyond


def name(row: Row) -> tuple[int, int]:
    """Of the hand-over that a record is of."""
    return row["term"], row["attempt"]


def sees(context: Context, node: int, from_ms: int, until_ms: int) -> bool:
    """Whether this node's account covers every moment of from_ms .. until_ms; looks at the edges between them."""
    spans = [row for row in rows_of(context.covered) if row["node"] == node and node in context.nodes]
    gaps = [row for row in rows_of(context.gaps) if row["node"] in (node, 0)]
    edges = {from_ms, until_ms}
    for row in spans + gaps:
        edges |= {time for time in (row["from_ms"], row["until_ms"]) if from_ms <= time <= until_ms}

    def seen(time: int) -> bool:
        return any(row["from_ms"] <= time < row["until_ms"] for row in spans) and not any(
            row["from_ms"] <= time < row["until_ms"] for row in gaps
        )

    return all(map(seen, edges))


def all_see(context: Context, from_ms: int, until_ms: int) -> bool:
    """Whether every node's account does."""
    return bool(context.nodes) and all(sees(context, node, from_ms, until_ms) for node in context.nodes)
