"""Measure the rules of the ledger alone: one bucket (up to 2^20 units of an hour) in memory, one core, no files, no
Spark.

    python -m bench.ledger [--messages N]

The bench judges two hours. In the plain one each message is leased, handed over and acknowledged once. The hand-overs
come in another order than the units have in the index. In the other hour every message is handed over twice, so no
message can be judged by one start and one end alone. The figure is messages a second of processor time, the best of
several runs. The time of other processes does not count, but they take the caches.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from ledger.bucket import BUCKET_UNITS, SPAN, Bucket, Context, Rows
from ledger.judge import judge
from ledger.summary import Summary
from storage.format.position import HOUR_MS, INDEX_BITS
from storage.format.rows import SETTLE, UNIT
from storage.format.states import DELIVERED, LEASED
from storage.record.delivery_record import DELIVERED as DONE
from storage.record.delivery_record import DELIVERY, END, PULL, START
from storage.record.record import HEADER

HOUR = 490_000
LEASE_MS = 30_000
ROUNDS = 5


def bucket_of(count: int, times: int) -> Bucket:
    """Return a bucket of `count` messages. Each is handed over `times` times: at its due time, then again each time
    that its lease has ended. After the last hand-over it is acked."""
    chance = np.random.default_rng(1)
    units, headers = np.zeros(count, UNIT), np.zeros(count, HEADER)
    order = chance.permutation(count)  # of the hand-overs in time
    due_ms = np.empty(count, np.int64)
    due_ms[order] = HOUR * HOUR_MS + np.arange(count) * (HOUR_MS - 1) // count
    units["global_index"], units["due_ms"], units["topic"], units["kind"] = np.arange(count), due_ms, 1, 1
    headers["size"], headers["topic"], headers["asked_due_ms"], headers["body_len"] = 200, 1, due_ms, 100
    headers["created_ms"] = HOUR * HOUR_MS - HOUR_MS + np.arange(count) * 60_000 // count
    headers["random"] = chance.integers(1, 1 << 50, count)
    headers["payload_crc"] = chance.integers(0, 1 << 32, count)
    settles: list[Rows] = []
    deliveries: list[Rows] = []
    for attempt in range(1, times + 1):
        last = attempt == times
        lease, start = np.zeros(count, SETTLE), np.zeros(count, DELIVERY)
        lease["global_index"], lease["what"], lease["attempt"], lease["term"], lease["node"] = (
            order,
            LEASED,
            attempt,
            1,
            1,
        )
        lease["at_ms"] = due_ms[order] + 3 + (attempt - 1) * (LEASE_MS + 100)
        lease["when"] = lease["at_ms"] + LEASE_MS
        start["home"] = np.uint64(HOUR << INDEX_BITS) + order.astype(np.uint64)
        start["random"], start["asked_due_ms"] = headers["random"][order], due_ms[order]
        start["kind"], start["mode"], start["topic"], start["at_ms"] = START, PULL, 1, lease["at_ms"]
        start["term"], start["attempt"], start["node"] = 1, attempt, 1
        settles.append(np.repeat(lease, 1 + last))
        deliveries.append(np.repeat(start, 1 + last))
        if last:
            end, said = settles[-1][1::2], deliveries[-1][1::2]
            end["what"], said["kind"], said["outcome"] = DELIVERED, END, DONE
            end["at_ms"] += 20
            said["at_ms"] += 21
    return Bucket(0, HOUR, 0, units, np.concatenate(settles), headers, np.concatenate(deliveries))


def per_second(bucket: Bucket) -> int:
    """Return how many messages are judged in a second of processor time."""
    covered = np.array([(1, 0, 0, 0, 1 << 60)], SPAN)
    context = Context(0, (HOUR + 24) * HOUR_MS, nodes=(1,), covered=covered)
    best_s = float("inf")
    for _ in range(ROUNDS):
        began_s = time.process_time()
        found = judge(bucket, context)
        best_s = min(best_s, time.process_time() - began_s)
        assert not Summary.of(found).wrong(), "the counts of the ledger do not add up"
    return round(len(bucket.units) / best_s)


def main() -> None:
    """Print the two figures as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=BUCKET_UNITS, help="in the bucket, at most 2^20")
    count = parser.parse_args().messages
    print(json.dumps({"plain_per_s": per_second(bucket_of(count, 1)), "twice_per_s": per_second(bucket_of(count, 2))}))


if __name__ == "__main__":
    main()
