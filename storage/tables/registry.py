"""The tables of the catalog, one row each: its bound, the size of its rows, the command that drops them, and its cache.

All replicated data beside the hours stands in one of them. Only the doubt about former leaders is a part of the
checkpoint record (storage/catalog/doubt.py). The rule of a restored cluster for overdue messages (overdue.py) is a row
of `meta`.

A cache in memory is made from a table's rows alone: at the start, and when a snapshot was installed. It may write to
other tables too. The registry names them.

The content is listed, and its digest taken, in the order of these rows, so a new row stands at the end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol

from typing_extensions import TypeVar

from storage.format.position import HOUR_MAX
from storage.format.registry import BadRow
from storage.tables.first_index import FirstIndexes
from storage.tables.idempotency import BYTES_MAX, GROUP_BYTES, Idempotency
from storage.tables.key import HOUR_BYTES, Keys
from storage.tables.members import NUMBER_MAX, Members
from storage.tables.operation_row import HOURS_MAX, KEPT_MAX, RUNNING_MAX
from storage.tables.operations import Operations
from storage.tables.topic import Topics

ABOUT: Final = b"about"
"""The named database of data about the catalog, not part of it: the checkpoint record, the catalog's format."""

NAME_BYTES_MAX: Final = 16
"""The longest name of a table. The name goes into the hash of its rows (storage/lmdb/table.py) as BLAKE2b's `person`,
which may have this many bytes."""

DATABASES_MAX: Final = 64
"""Named databases that LMDB opens: the tables and ABOUT."""


class Cache(Protocol):
    """The content of a table in memory, as its users look it up. It is changed together with the rows."""

    def load(self) -> None:
        """Read all rows, before any look-up. Raises Corrupt if a row's checksum does not match."""


C = TypeVar("C", bound=Cache, default=Cache)


@dataclass(frozen=True, slots=True)
class TableRow(Generic[C]):
    """A table: at most `rows_max` rows, of about `row_bytes` with their keys.

    - `dropped_by`: the file of the command that drops rows, or `nobody: ` and why the rows are bounded.
    - `cache`: makes the cache. It is called with the table and with those named in `beside`, to which the cache writes
      as well.
    - `group`: the number of bytes at the begin of a key by which `Table.unsaved` finds keys. 0: it is not used.
    """

    name: str
    rows_max: int
    row_bytes: int
    dropped_by: str
    cache: Callable[..., C] | None = None
    beside: tuple[str, ...] = ()
    group: int = 0


def registered(rows: Iterable[TableRow[Any]]) -> dict[str, TableRow[Any]]:
    """The rows by name, in their order. Raises BadRow."""
    found: dict[str, TableRow[Any]] = {}
    for row in rows:
        word = isinstance(row.name, str) and row.name.isidentifier() and len(row.name.encode()) <= NAME_BYTES_MAX
        if not word or row.name.encode() == ABOUT:
            raise BadRow(
                f"table {row.name!r}: a name is a word of {NAME_BYTES_MAX} bytes at most, and none that is taken"
            )
        if row.name in found:
            raise BadRow(f"table {row.name} stands here twice")
        for what, value in (("rows_max", row.rows_max), ("row_bytes", row.row_bytes)):
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                raise BadRow(f"table {row.name} has no bound: {what} is {value!r}")
        if not row.dropped_by.removeprefix("nobody:").strip():
            raise BadRow(f"table {row.name}: it does not say who drops its rows")
        found[row.name] = row
    for row in found.values():
        for other in row.beside:
            if other not in found:
                raise BadRow(f"table {row.name}: there is no table {other} for its cache to write to")
    if len(found) >= DATABASES_MAX:
        raise BadRow(f"table {list(found)[-1]} is one too many: LMDB opens {DATABASES_MAX} with {ABOUT.decode()}")
    return found


META: Final = TableRow(
    "meta",
    rows_max=3 * (HOUR_MAX + 1) + 4,  # up to three of each hour that ever was: first index, in the backup, dead keys
    row_bytes=64,
    dropped_by="nobody: its rows are of the cluster, and of hours, of which there are no more",
    cache=FirstIndexes,
)
TOPICS: Final = TableRow(
    "topics",
    rows_max=10_000_000,  # the most that limits.max_topics lets schedules make
    row_bytes=250,
    dropped_by="replication/apply/topic.py",
    cache=Topics,
    beside=("meta",),
)
KEYS: Final = TableRow(
    "keys",
    rows_max=4_000_000_000,  # one a message; what LMDB's map has room for
    row_bytes=100,
    dropped_by="replication/apply/unlink.py",
    cache=Keys,
    beside=("hour_keys", "meta"),
)
HOUR_KEYS: Final[TableRow] = TableRow(
    "hour_keys",
    rows_max=KEYS.rows_max,
    row_bytes=64,
    dropped_by="replication/apply/unlink.py",
    group=HOUR_BYTES,
)
MEMBERS: Final = TableRow(
    "members",
    rows_max=NUMBER_MAX,
    row_bytes=200,
    dropped_by="nobody: a number stands in records, so it names the same node for ever",
    cache=Members,
)
OPERATIONS: Final = TableRow(
    "operations",
    rows_max=KEPT_MAX + RUNNING_MAX,
    row_bytes=32 * HOURS_MAX + 4_096,  # of one that runs; without its hours once it has ended
    dropped_by="replication/apply/operation.py",
    cache=Operations,
    beside=("progress",),
)
PROGRESS: Final[TableRow] = TableRow(
    "progress", rows_max=OPERATIONS.rows_max, row_bytes=120, dropped_by=OPERATIONS.dropped_by
)
IDEMPOTENCY: Final = TableRow(
    "idempotency",
    rows_max=BYTES_MAX // 128,
    row_bytes=250,  # all rows together have at most BYTES_MAX
    dropped_by="replication/apply/once.py",
    cache=Idempotency,
    beside=("idempotency_age", "meta"),
)
IDEMPOTENCY_AGE: Final[TableRow] = TableRow(
    "idempotency_age",
    rows_max=IDEMPOTENCY.rows_max,
    row_bytes=80,
    dropped_by=IDEMPOTENCY.dropped_by,
    group=GROUP_BYTES,
)

TABLES: Final = registered([META, TOPICS, KEYS, HOUR_KEYS, MEMBERS, OPERATIONS, PROGRESS, IDEMPOTENCY, IDEMPOTENCY_AGE])
