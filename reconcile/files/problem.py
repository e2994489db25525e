"""What is wrong with the data that was given: either it is refused, by name, or it becomes a row of the report.

Nothing is dropped in silence. What would make the whole answer wrong (a directory that is not there, two clusters
mixed, a format this build does not read) is DataRefused before any work begins. What leaves the answer right for all
that can still be read (one copy of three is damaged, a span of a log was never written) is a Problem, and the report
lists every one.
"""

from typing import Final, NamedTuple

MISSING: Final = "missing"
"""A file that the node's own checkpoint names is not there."""
CUT_SHORT: Final = "cut short"
"""A file has fewer bytes than the node's checkpoint says were durable."""
DAMAGED: Final = "damaged"
"""Bytes are not what was written; another copy was read instead, if there was one."""
UNREADABLE: Final = "unreadable"
"""Damaged in every copy that was given: these rows are in no answer."""
UNWRITTEN: Final = "unwritten"
"""Rows of the delivery log that a power cut left as zeros."""
TIMELESS: Final = "timeless"
"""Receipts of which none bears a time: they cover none, and what nobody got cannot be told."""
FOREIGN: Final = "foreign"
"""A name in the directory that is none of Hourwheel's."""


class DataRefused(Exception):
    """The data cannot be reconciled as given; says which path and why."""


class Problem(NamedTuple):
    """Something that could not be read as written. `rows` of them, or bytes where a file is too short."""

    kind: str
    node: str
    file: str
    what: str
    rows: int = 1
