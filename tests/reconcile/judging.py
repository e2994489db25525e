"""Judges node directories with the ledger alone, hour by hour in this process: what a job has to agree with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ledger.bucket import BUCKET_UNITS, RECEIPT, SPAN, Bucket, Context, Rows, Topic
from ledger.judge import Ledger, judge
from ledger.moved import abroad_of
from ledger.terms import merge_terms, terms_of
from reconcile.files.deliveries import hand_overs, read_deliveries
from reconcile.files.hour import read_headers, read_settles, read_units
from reconcile.files.inventory import HourPart, Inventory
from storage.format.position import hours_of
from storage.format.rows import take_rows


def of_hour(rows: Rows, hour: int) -> Rows:
    """Rows whose home is of this hour."""
    return take_rows(rows, np.flatnonzero(hours_of(rows["home"]) == hour))


def judge_directories(
    paths: Iterable[Path], *, from_ms: int, until_ms: int, receipts: Rows | None = None, audited: int = 0
) -> list[Ledger]:
    """The ledgers of all hours, each of which is one bucket. `receipts` are all that the topic `audited` got."""
    inventory = Inventory.open(list(paths))
    assert not inventory.problems, inventory.problems
    reads = [read_deliveries(source) for source in inventory.deliveries]
    deliveries = np.concatenate([read.rows for read in reads])
    numbers = {name: number for number, name in inventory.members.items()}
    gaps = [(numbers[gap.node], 0, 0, gap.from_ms, gap.until_ms) for read in reads for gap in read.gaps]
    # The first node's log begins with the window: its first file is gone.
    covered = [(number, 0, 0, from_ms if number == 1 else 0, until_ms + 60_000) for number in numbers.values()]
    context = Context(
        from_ms=from_ms,
        until_ms=until_ms,
        terms=merge_terms([terms_of(deliveries)]),
        nodes=tuple(numbers.values()),
        covered=np.array(covered, SPAN),
        gaps=np.array(gaps, SPAN),
        topics={
            number: Topic(topic.name, topic.settings.get("mode") == "push", topic.settings.get("handover") == "strict")
            for number, topic in inventory.topics.items()
        },
        receipts_from_ms=0 if receipts is None else int(receipts["at_ms"].min()),
        receipts_until_ms=0 if receipts is None else int(receipts["at_ms"].max()),
        receipt_topics=frozenset([audited]),
    )
    buckets = [_bucket(part, deliveries, receipts) for part in inventory.hours]
    abroad = [abroad_of(bucket) for bucket in buckets]
    places = np.concatenate([each.places for each in abroad])
    settles = np.concatenate([each.settles for each in abroad])
    return [
        judge(
            Bucket(
                0, bucket.hour, bucket.first, bucket.units, bucket.settles, bucket.headers, bucket.deliveries,
                places=of_hour(places, bucket.hour), abroad=of_hour(settles, bucket.hour), receipts=bucket.receipts,
            ),
            context,
        )
        for bucket in buckets
    ]  # fmt: skip


def _bucket(part: HourPart, deliveries: Rows, receipts: Rows | None) -> Bucket:
    count = part.next - part.first
    assert count <= BUCKET_UNITS, f"{count} units in hour {part.hour}"
    units, settles = read_units(part, part.first, count), read_settles(part, part.first, count)
    headers = read_headers(part, units.rows)
    assert (units.unreadable, settles.unreadable, headers.unreadable) == (0, 0, 0)
    got = np.zeros(0, RECEIPT) if receipts is None else of_hour(receipts, part.hour)
    return Bucket(
        0, part.hour, part.first, units.rows, settles.rows, headers.rows,
        hand_overs(of_hour(deliveries, part.hour)), receipts=got,
    )  # fmt: skip
