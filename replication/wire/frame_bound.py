"""The largest value of every number in a frame, and why: each place that stores it must hold it.

    field                               largest                    stored as
    terms                               2^31 - 1                   u32 in the journal, in segments, settle records,
                                                                   delivery records and receipts
    indexes                             2^56 - 1                   u64 in the journal, i64 in the checkpoint; sums and
                                                                   differences of two must fit as well
    times of clocks                     the end of hour 2^24 - 1   i64 columns; an id has 24 bits for the hour
    seq, number, stamp, offset, sizes   2^56 - 1                   compared and added only; a stamp is divided as a
                                                                   float
    crc                                 2^32 - 1                   compared only

Half of the range of a u32 is left above the largest term. So code may add to a term without a check of its width.
"""

from __future__ import annotations

from typing import Final

TERM_MAX: Final = (1 << 31) - 1
INDEX_MAX: Final = (1 << 56) - 1
MS_MAX: Final = (1 << 24) * 3_600_000 - 1
SUM_SIZES: Final = (0, 16, 17)
"""Bytes of a rolling hash, from level 2 on with its version before it. 0 if a node cannot tell."""

PIECE_BYTES_MAX: Final = 1024 * 1024
"""A piece of a snapshot. A heartbeat on the same connection may have to wait for it."""
FILES_MAX: Final = 1 << 24
SILENCE_MS_MAX: Final = 1 << 24
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024

MOST: Final[dict[str, int]] = {
    **dict.fromkeys(("term", "last_log_term", "prevLogTerm", "entry_term", "known_term"), TERM_MAX),
    **dict.fromkeys(("index", "last_log_index", "prevLogIdx", "next_node_idx", "known_index"), INDEX_MAX),
    **dict.fromkeys(("commit_index", "last_index", "low_water", "durable_index", "applied_index"), INDEX_MAX),
    **dict.fromkeys(("check_index", "agreed_index", "sum_index"), INDEX_MAX),
    **dict.fromkeys(("wall_ms", "median_ms", "median_slack_ms"), MS_MAX),
    **dict.fromkeys(("seq", "stamp_us", "free_bytes", "number", "offset", "bytes"), INDEX_MAX),
    **dict.fromkeys(("wish_ms", "silence_ms"), SILENCE_MS_MAX),
    "crc": (1 << 32) - 1,
    "size": PIECE_BYTES_MAX,
    "known": PIECE_BYTES_MAX,
    "file": FILES_MAX,
    "manifest_bytes": MANIFEST_BYTES_MAX,
}
"""By field, in every kind that has it. `frame.py` refuses to be loaded with a number that has no line here."""
