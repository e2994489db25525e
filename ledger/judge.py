"""One bucket's verdicts: a class for every message, a cause for every duplicate."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.bucket import Bucket, Context
from ledger.columns import DUPLICATES, LEDGER, Columns, empty_columns


@dataclass(frozen=True, slots=True)
class Ledger:
    """What `judge` found. `messages` has a row for each message born in the bucket, in order of home; `duplicates` one
    for each extra hand-over."""

    messages: Columns  # ledger.columns.LEDGER
    duplicates: Columns  # ledger.columns.DUPLICATES
    foreign: int = 0
    """Hand-overs, settle records and receipts that name no message of the bucket, or one with other random bits."""


def judge(bucket: Bucket, context: Context) -> Ledger:
    """The ledger of one bucket. Pure: no clock, no file; the same records give the same rows, in the same order."""
    return Ledger(empty_columns(LEDGER, len(bucket.units)), empty_columns(DUPLICATES))
