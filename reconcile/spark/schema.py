"""The tables of the data source: their columns, and what each means.

Columns are the fields of the records (docs/format.md has the bytes) under the same names. Spark knows no unsigned
numbers, so each stands in the next larger signed one, and 64-bit ones that are bits rather than numbers (`home`,
`place`, `random`, `tags`) keep their bits. Times are milliseconds since 1970, UTC; `timestamp_millis(at_ms)` shows one.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.format.states import IS_WHAT, STATES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Column(NamedTuple):
    """One column: its name, its type in Spark's words, and what it says."""

    name: str
    kind: str
    says: str


def _what_says() -> str:
    *names, last = (state.name for state in STATES.values() if IS_WHAT[state.number])
    return f"{', '.join(names)} or {last}"


def _when_says() -> str:
    names: dict[str, list[str]] = {}
    for state in STATES.values():
        if state.when:
            names.setdefault(state.when, []).append(state.name)
    return ", ".join(f"{when} for {' and '.join(its)}" for when, its in names.items())


MESSAGES: Final = (
    Column("id", "string", "the message's id"),
    Column("home", "bigint", "where it was born: hour << 40 | global_index"),
    Column("place", "bigint", "where this unit of it stands; home, unless it was moved"),
    Column("hour", "int", "hour of the unit: due_ms // 3,600,000 when it was appended"),
    Column("global_index", "bigint", "ordinal of the unit in its hour"),
    Column("local_index", "bigint", "ordinal in its second"),
    Column("due_ms", "bigint", "when it falls due, as stored"),
    Column("asked_due_ms", "bigint", "when its client asked for"),
    Column("created_ms", "bigint", "the leader's stamp when it was scheduled"),
    Column("expiry_ms", "bigint", "when it expires; 0: never"),
    Column("topic", "bigint", "number of its topic"),
    Column("priority", "int", ""),
    Column("attempt", "int", "hand-overs before it came to this place"),
    Column("keyed", "boolean", "it has a key"),
    Column("moved", "boolean", "this unit was appended by a move: retry, reschedule, redrive"),
    Column("tags", "bigint", "64 bits of a filter over its tags"),
    Column("random", "bigint", "the random bits of its id"),
    Column("body_len", "bigint", "bytes of its body"),
    Column("payload_crc", "bigint", "CRC32 of tags, headers, key and body together, as crc32() computes it"),
)
SETTLEMENTS: Final = (
    Column("place", "bigint", "the unit that this is said of: hour << 40 | global_index"),
    Column("hour", "int", ""),
    Column("global_index", "bigint", ""),
    Column("ordinal", "bigint", "of the record in its hour's settle file: what came later has a higher one"),
    Column("what", "string", _what_says()),
    Column("at_ms", "bigint", "when it was decided, by the leader's clock"),
    Column("when", "bigint", _when_says()),
    Column("term", "bigint", "of the hand-over"),
    Column("attempt", "int", "of the hand-over"),
    Column("node", "int", "number of the node that decided it"),
    Column("code", "int", "HTTP status or reason"),
    Column("subscription", "int", ""),
)
DELIVERIES: Final = (
    Column("id", "string", "the message's id"),
    Column("home", "bigint", "where the message was born: hour << 40 | global_index"),
    Column("kind", "string", "start or end of a hand-over"),
    Column("mode", "string", "pull or push"),
    Column("outcome", "string", "of an end; null for a start"),
    Column("at_ms", "bigint", "by the clock of the node"),
    Column("asked_due_ms", "bigint", "of a start"),
    Column("took_ms", "bigint", "of an end: since its start; 0: not known"),
    Column("term", "bigint", ""),
    Column("attempt", "int", ""),
    Column("code", "int", "HTTP status or reason"),
    Column("topic", "bigint", "number of the topic"),
    Column("subscription", "int", ""),
    Column("node", "int", "number of the node that handed it over"),
    Column("node_id", "string", "the same by name: whose log this is"),
    Column("tick", "bigint", "of the dispatch state at that moment"),
    Column("local_index", "bigint", "of the dispatch state at that moment"),
    Column("random", "bigint", "the random bits of the id"),
)
TERMS: Final = (
    Column("term", "bigint", ""),
    Column("event", "string", "begun or ended"),
    Column("at_ms", "bigint", "by the clock of the node"),
    Column("how", "string", "of an end: handed_on, lost, stopped or killed; null for a begin"),
    Column("node", "int", "number of the node that led"),
    Column("node_id", "string", "the same by name: whose log this is"),
    Column("tick", "bigint", "of the dispatch state that a begin found"),
    Column("local_index", "bigint", "of the dispatch state that a begin found"),
)
PROBLEMS: Final = (
    Column("kind", "string", "missing, cut short, damaged, unreadable, unwritten or foreign"),
    Column("node", "string", "whose copy; empty where it is all of them"),
    Column("file", "string", "from the node's directory on"),
    Column("what", "string", ""),
    Column("rows", "bigint", "how many rows, or bytes where a file is too short"),
)
TABLES: Final = {
    "messages": MESSAGES,
    "settlements": SETTLEMENTS,
    "deliveries": DELIVERIES,
    "terms": TERMS,
    "problems": PROBLEMS,
}


def ddl(table: str) -> str:
    """The table's columns in Spark's words, `id string, home bigint, ...`."""
    return ", ".join(f"`{column.name}` {column.kind}" for column in TABLES[table])


def wanted_columns(table: str, schema: "StructType") -> tuple[str, ...]:
    """Names of the columns that a reader was asked for, in its order: some of the table's, of their types.

    Raises ValueError naming the first that the table does not have, or has with another type.
    """
    kinds = {column.name: column.kind for column in TABLES[table]}
    for field in schema.fields:
        kind = kinds.get(field.name)
        if kind is None:
            raise ValueError(f"table {table} has no column {field.name!r}; it has {', '.join(kinds)}")
        if field.dataType.simpleString() != kind:
            raise ValueError(
                f"column {field.name} of table {table} is {kind}, asked for as {field.dataType.simpleString()}"
            )
    return tuple(schema.fieldNames())
