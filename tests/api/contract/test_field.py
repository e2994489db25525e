"""A field is a row: what is made from rows, and which rows cannot be."""

from dataclasses import replace
from typing import Any

import msgpack
import msgspec
import pytest

from api.contract.checker import Fault
from api.contract.field import (
    EXTENSION_FIELDS_BYTES_MAX,
    EXTENSION_FIELDS_MAX,
    PLANNED,
    BadField,
    Field,
    MessageFields,
    registered,
)
from api.contract.fields import MESSAGE
from api.contract.kind import Kind, plain, text
from api.port.port import Limits, MessageIn
from api.port.problem import Problem
from api.read.message import accept, explain, parse_message
from tests.api.contract.added import added, note
from tests.api.memory_queries import NOW_MS

_LIMITS = Limits(push_allow=())
_NO_CHECKER: Any = None


def _read(**fields: Any) -> MessageIn:
    return parse_message(msgspec.json.encode({"topic": "a", "body": 1, **fields}), NOW_MS, _LIMITS)


def _refused(**fields: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(Problem) as caught:
        _read(**fields)
    return [(caught.value.code, fault.pointer, fault.detail) for fault in caught.value.errors]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (note("tags"), "field tags stands here twice"),
        (note("order_key"), "field order_key stands here twice"),
        (replace(note(), kind=_NO_CHECKER), "field note has no checker"),
        (replace(note(), kind=replace(text(5), read=_NO_CHECKER)), "field note has no checker"),
        (replace(note(), kind=replace(text(5), bytes_max=0)), "field note has no bound"),
        (replace(note(), kind=replace(text(5), bytes_max=None)), "field note has no bound"),  # type: ignore[arg-type]
        (replace(note(), kind=replace(text(5), wire=str | float)), r"field note: str \| float would be decoded"),
        (replace(note(), kind=replace(text(5), wire=list[bytes])), "field note: .* would be decoded into"),
        (replace(note(), said=""), "field note has no words"),
        (replace(note(), example=None), "field note has no words or no example"),
        (replace(note(), since="soon"), 'field note is served since a build such as "0.1.0", or planned; got "soon"'),
        (replace(note(), clash={"notes": "no"}), "field note clashes with notes, which is no field"),
        (replace(note(), required="it is"), "field note: what stands in the extension is optional"),
        (replace(note(), movable=True), "field note: what stands in the extension is optional and stays as it is"),
        (note("revision"), "field revision: apply keeps something of that name"),
        (note("receipt"), "field receipt: answers have a member of that name"),
        (note("Note"), 'field "Note": a name is 1 to 32 of a-z'),
        (note("n" * 33), "a name is 1 to 32 of a-z"),
        (replace(note(), stored="column"), "field note: a record has no column column"),
        (replace(note(), stored="order_key"), "field note has a column of its own, and MessageIn has no member for"),
        (replace(note(), stored=""), "field note has a column of its own, and MessageIn has no member for that"),
        (note(bytes_max=EXTENSION_FIELDS_BYTES_MAX), "fields retry, note: an extension has room for 32768 bytes"),
    ],
)
def test_a_row_that_cannot_be_is_refused_by_name(row: Field, says: str) -> None:
    """When the fields are made: at import. Those of before stand."""
    before = dict(MESSAGE.rows)
    with pytest.raises(BadField, match=says), added(row):
        raise AssertionError
    assert MESSAGE.rows == before


def test_a_planned_field_that_has_a_column_is_not_served_before_somebody_fills_it() -> None:
    """A row alone would let it be sent, and lose it."""
    rows = {**MESSAGE.rows, "priority": replace(MESSAGE.rows["priority"], since="0.2.0")}
    with pytest.raises(BadField, match="field priority has a column of its own"):
        registered(rows.values())


def test_an_extension_has_room_for_so_many_fields() -> None:
    """Its head is one byte."""
    most = [note(f"note_{number}") for number in range(EXTENSION_FIELDS_MAX - 1)]  # retry is one of them
    with added(*most):
        packed = _read(**{row.name: "x" for row in most}, retry={}).extension
        assert msgpack.unpackb(packed) == {"retry": {}, **{row.name: "x" for row in most}}
    with pytest.raises(BadField, match=f"field note: an extension has room for {EXTENSION_FIELDS_MAX} fields"):
        registered([*MESSAGE.rows.values(), *most, note()])


def test_what_is_made_from_the_rows_of_this_build() -> None:
    """The order of fields is the decoder's pace, that of names a hint for people; fingerprints are of the format."""
    rest = ("delay", "deliver_at", "tags", "headers", "key", "on_conflict", "delay_level", "extend", "target", "retry")
    assert MESSAGE.json_message.__struct_fields__ == ("topic", "body", *rest)
    assert MESSAGE.opaque_message.__struct_fields__ == ("topic", "body_base64", "content_type", *rest)
    assert [row.name for row in MESSAGE.served] == [
        *("topic", "body", "body_base64", "content_type", "delay", "deliver_at", "delay_level"),
        *("tags", "headers", "key", "on_conflict", "extend", "target", "retry"),
    ]
    assert MESSAGE.planned == ("order_key", "priority", "expire_after")
    assert MESSAGE.json_covered == (
        *("delay", "delay_level", "deliver_at", "headers"),
        *("retry", "tags", "target", "topic"),
    )
    assert MESSAGE.opaque_covered == ("body_base64", "content_type", *MESSAGE.json_covered)
    assert [row.name for row in MESSAGE.movable] == ["delay", "deliver_at", "delay_level"]
    assert set(MESSAGE.fixed) == set(MESSAGE.rows) - {"delay", "deliver_at", "delay_level"}
    assert MESSAGE.clashes == ()
    assert [row.name for row in MESSAGE.extension] == ["retry"]


@pytest.mark.parametrize("fields", [[note()], [note(), note("other")], [note(), note("other"), note("third")]])
@pytest.mark.parametrize("body", [{"body": 1}, {"body_base64": "AAEC"}, {"body_base64": "", "content_type": "a/b"}])
def test_both_ways_read_what_a_test_adds(fields: list[Field], body: dict[str, Any]) -> None:
    """One field of the extension, two, or none of them sent; beside others, and alone."""
    with added(*fields):
        others: list[dict[str, Any]] = [{}, {"retry": {}}, {"key": "k"}, {"tags": ["a"], "delay": "1s"}]
        for sent in others:
            for names in ([], [fields[-1].name], [row.name for row in fields]):
                data = msgspec.json.encode({"topic": "a", **body, **sent, **dict.fromkeys(names, "for Ada")})
                decoder = MESSAGE.json if "body" in body else MESSAGE.opaque
                quick = accept(decoder.decode(data), NOW_MS, _LIMITS)
                assert quick == explain(data, NOW_MS, _LIMITS)
                kept = msgpack.unpackb(quick.extension) if quick.extension else {}
                assert kept == {
                    name: {} if name == "retry" else "for Ada" for name in ["retry", *names] if name in kept
                }
                assert kept.keys() == {*names, *(sent.keys() & {"retry"})}


def test_a_fault_of_an_added_field_has_its_pointer_and_its_limit() -> None:
    """Beside those of others; a field that is planned says so, and one that is gone is not known."""
    with added(note()):
        assert _refused(note="x" * 17, key="") == [
            ("invalid-field", "/note", "it is 1 to 16 bytes of UTF-8, got 17"),
            ("invalid-field", "/key", "a key is 1 to 128 bytes of UTF-8, got 0; send a hash of it"),
        ]
        assert _refused(note=1) == [("invalid-field", "/note", "expected a string, got a whole number")]
        assert _refused(nota="x")[0][2] == '"nota" is not a field here; did you mean "note"?'
    with added(replace(note(), since=PLANNED)):
        assert _refused(note="x")[0][0] == "not-supported-yet"
    assert _refused(note="x")[0][0] == "unknown-field"


def test_a_value_past_the_bound_of_its_row_is_refused_whatever_its_checker_says() -> None:
    """A record's extension has room for the bounds of all."""
    loose = Kind(plain(lambda value: value), list[int], 4, {})
    with added(replace(note(), kind=loose)):
        assert msgpack.unpackb(_read(note=[1, 2, 3]).extension) == {"note": [1, 2, 3]}
        assert _refused(note=[1, 2, 3, 4]) == [("invalid-field", "/note", "at most 4 bytes are kept of it, got 5")]


@pytest.mark.parametrize("other", ["delay", "tags", "key", "content_type"])
def test_an_added_field_clashes_with_what_its_row_names(other: str) -> None:
    """In the words of the row, whichever of the ways meets it first."""
    value = {"delay": "1s", "tags": ["a"], "key": "k", "content_type": "application/json"}[other]
    with added(note(clash={other: f"no note beside {other}"})):
        assert _refused(note="x", **{other: value}) == [("invalid-field", "/note", f"no note beside {other}")]
        assert _read(note="x").extension
        assert not _read(**{other: value}).extension


def test_fields_that_stand_already_may_clash_with_each_other() -> None:
    """The quick path looks for every pair that a row names."""
    rows = [replace(row, clash={"key": "no tags"}) if row.name == "tags" else row for row in MESSAGE.rows.values()]
    before = list(MESSAGE.rows.values())
    MESSAGE.set(rows)
    try:
        assert _refused(tags=["a"], key="k") == [("invalid-field", "/tags", "no tags")]
        assert _read(tags=["a"]).tags == ("a",)
    finally:
        MESSAGE.set(before)


def test_an_added_field_is_of_the_fingerprint_unless_its_row_says_otherwise() -> None:
    """One forgotten would make two different requests one replay."""
    with added(note(), note("other", fingerprinted=False)):
        marks = [_read(key="k", **sent).fingerprint for sent in ({}, {"note": "a"}, {"note": "b"}, {"other": "a"})]
    assert marks[0] == marks[3]
    assert len(set(marks)) == 3


def test_what_a_record_keeps_is_told_by_the_rows() -> None:
    """What apply keeps beside it, or a later build, is of no answer."""
    extension = {"revision": 3, "error": "e", "retry": {"max_attempts": 2}, "note": "n", "later": 1}
    assert MESSAGE.kept(extension) == {"retry": {"max_attempts": 2}}
    with added(note()):
        assert MESSAGE.kept(extension) == {"retry": {"max_attempts": 2}, "note": "n"}
        assert MESSAGE.pulled(extension) == {"note": "n"}


def test_a_table_without_fields_of_the_extension_reads_on() -> None:
    """There is nothing to get of a message then."""
    table = MessageFields(row for row in MESSAGE.rows.values() if row.stored != "extension")
    wire = table.json.decode(b'{"topic":"a","body":1}')
    assert table.rare(wire) is table.none_sent


def test_a_fault_of_a_row_is_raised_by_the_row() -> None:
    """As the value is read, for both ways alike."""
    with pytest.raises(Fault, match="1 to 16 bytes"):
        note().read("", NOW_MS, _LIMITS)
    assert note().read("x", NOW_MS, _LIMITS) == b"\xa1x"
