"""The largest value of every number in a frame, and the reason: each place that stores the number must be able to hold
it.

    field                               largest                    stored as
    terms                               2^31 - 1                   u32 in the journal, in segments, settle records,
                                                                   delivery records and receipts
    indexes                             2^56 - 1                   u64 in the journal, i64 in the checkpoint; sums and
                                                                   differences of two must fit as well
    times of clocks                     the end of hour 2^24 - 1   i64 columns; an id has 24 bits for the hour
    seq, number, stamp, offset, sizes   2^56 - 1                   compared and added only; a stamp is divided as a
                                                                   float
    crc                                 2^32 - 1                   compared only

A term uses half of the range of a u32. So code may add to a term without a check of its width.
"""

from __future__ import annotations

from typing import Final

TERM_MAX: Final = (1 << 31) - 1
INDEX_MAX: Final = (1 << 56) - 1
MS_MAX: Final = (1 << 24) * 3_600_000 - 1
SUM_SIZES: Final = (0, 16, 17)
"""The lengths that a rolling hash may have in a message, in bytes.

16 is a bare hash. From level 2 on the version stands before it. 0 means that the node does not have the hash.
"""

PIECE_BYTES_MAX: Final = 1024 * 1024
"""The largest piece of a snapshot. It is small, because a heartbeat on the same connection may have to wait for it."""
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
"""The largest value of each field that is a number, in all kinds. `frame.py` asserts that no such field is missing."""
