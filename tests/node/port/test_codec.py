"""Every type that crosses, through the codec: it comes back equal, and what is not of its type is refused by name."""

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.port import push_port
from node.port.codec import BadFrame, decode, encode
from node.port.push_port import Origin, PushDone, PushTarget, PushWork

texts = st.text(max_size=40)
headers = st.dictionaries(texts, texts, max_size=3)
END_MS = 253_402_300_799_999  # of the year 9999
counts, u32, u16, ms = (st.integers(0, most) for most in ((1 << 63) - 1, (1 << 32) - 1, (1 << 16) - 1, END_MS))
targets = st.builds(
    PushTarget,
    url=texts,
    origin=st.builds(Origin, texts, texts, u16),
    method=texts,
    headers=headers,
    timeout_ms=u32,
    key=st.none() | st.binary(max_size=64),
    start=st.binary(max_size=40),
    topic=u32,
)
works = st.builds(
    PushWork,
    number=counts,
    group=u16,
    term=u32,
    target=targets,
    id=texts,
    topic=texts,
    attempt=u16,
    handed_over_ms=ms,
    lease_end_ms=ms,
    asked_due_ms=ms,
    content_type=texts,
    tags=st.lists(texts, max_size=3).map(tuple),
    headers=headers,
    body=st.binary(max_size=300),
)
dones = st.builds(PushDone, counts, u16, texts, st.none() | counts, counts)

NOWHERE = PushTarget("", Origin("", "", 0), "", {}, 0, None, b"")
EMPTY: list[msgspec.Struct] = [
    NOWHERE,
    PushWork(
        number=0, group=0, term=0, target=NOWHERE, id="", topic="", attempt=0, handed_over_ms=0, lease_end_ms=0,
        asked_due_ms=0, content_type="", tags=(), headers={}, body=b"",
    ),
    PushDone(0, 0),
]  # fmt: skip


def plain(value: object) -> object:
    """With structs as maps of their fields: some of them are equal to nothing but themselves."""
    return msgspec.to_builtins({"": msgspec.structs.asdict(value)}) if isinstance(value, msgspec.Struct) else value


@given(targets | works | dones)
def test_what_crosses_comes_back_equal(value: msgspec.Struct) -> None:
    """With values at every edge."""
    assert plain(decode(type(value), encode(value))) == plain(value)


@pytest.mark.parametrize("value", EMPTY, ids=lambda value: type(value).__name__)
def test_what_is_empty_comes_back_too(value: msgspec.Struct) -> None:
    """No text, no bytes, zeros."""
    assert plain(decode(type(value), encode(value))) == plain(value)


def of(kind: type[msgspec.Struct]) -> msgspec.Struct:
    """The empty value of this type."""
    return next(each for each in EMPTY if type(each) is kind)


@pytest.mark.parametrize(
    ("kind", "field", "wrong"),
    [
        (PushWork, "number", -1),
        (PushWork, "number", 1 << 63),
        (PushWork, "group", 1 << 16),
        (PushWork, "term", 1 << 32),
        (PushWork, "attempt", "1"),
        (PushWork, "lease_end_ms", END_MS + 1),
        (PushWork, "headers", {"a": 1}),
        (PushWork, "tags", [b"a"]),
        (PushWork, "body", "text"),
        (PushWork, "target", [1]),
        (PushTarget, "timeout_ms", 1 << 32),
        (PushTarget, "origin", ["http", "a"]),
        (PushDone, "code", 1 << 16),
        (PushDone, "text", "x" * 1025),
        (PushDone, "retry_after_ms", -1),
        (PushDone, "took_us", 0.5),
    ],
)
def test_a_field_that_is_not_of_its_type_is_refused_by_name(kind: type[msgspec.Struct], field: str, wrong: Any) -> None:
    """By who reads it."""
    fields = {name: getattr(of(kind), name) for name in kind.__struct_fields__} | {field: wrong}
    with pytest.raises(BadFrame, match=rf"^{kind.__name__}\.{field}"):
        decode(kind, msgspec.msgpack.encode(list(fields.values())))


TARGET = list(msgspec.structs.astuple(NOWHERE))


@pytest.mark.parametrize(
    ("place", "wrong", "named"),
    [
        (3, [*TARGET[:5], "text", *TARGET[6:]], r"PushWork\.target\.key: Expected"),
        (3, [TARGET[0], ["http", "a", 1 << 16], *TARGET[2:]], r"PushWork\.target\.origin\.port: Expected"),
        (3, TARGET[:4], r"PushWork\.target\.timeout_ms: missing"),
        (12, {1: "a"}, r"PushWork\.headers: Expected"),
        (11, ["a", 5], r"PushWork\.tags\[1\]: Expected"),
    ],
)
def test_a_field_within_is_named_too(place: int, wrong: Any, named: str) -> None:
    """Of the target, of its origin; an item of a list by its number."""
    values: list[Any] = list(msgspec.structs.astuple(of(PushWork)))
    values[place] = wrong
    with pytest.raises(BadFrame, match=named):
        decode(PushWork, msgspec.msgpack.encode(values))


@pytest.mark.parametrize(
    ("text", "named"), [(b"topic", r"^PushWork\.topic: "), (b"http://", r"^PushWork\.target\.url: ")], ids=str
)
def test_text_that_is_no_utf8_is_refused_by_name(text: bytes, named: str) -> None:
    """By who reads it; at the first field that has any."""
    target = PushTarget("http://", Origin("", "", 0), "", {}, 0, None, b"")
    fields = msgspec.structs.asdict(of(PushWork)) | {"topic": "topic", "target": target}
    data = encode(PushWork(**fields))
    with pytest.raises(BadFrame, match=named):
        decode(PushWork, data.replace(text, b"\xff" * len(text)))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (msgspec.structs.replace(of(PushWork), target=msgspec.structs.replace(NOWHERE, url="\ud800")), "target.url"),
        (PushDone(1, 200, "\ud800"), "PushDone.text"),
        (PushDone(1 << 65, 200), "PushDone.number"),
        (PushDone(1, 200, object()), "PushDone.text"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_go_is_refused_by_name(value: msgspec.Struct, field: str) -> None:
    """By who writes it."""
    with pytest.raises(BadFrame, match=field):
        encode(value)


@pytest.mark.parametrize("kind", [PushWork, PushTarget, PushDone])
def test_another_number_of_fields_is_refused(kind: type[msgspec.Struct]) -> None:
    """One that is missing by its name."""
    values = list(msgspec.structs.astuple(of(kind)))
    with pytest.raises(BadFrame, match=rf"^{kind.__name__}\.{kind.__struct_fields__[1]}: missing"):
        decode(kind, msgspec.msgpack.encode(values[:1]))
    with pytest.raises(BadFrame, match=rf"^{kind.__name__}: .* at most"):
        decode(kind, msgspec.msgpack.encode([*values, 1]))


@given(st.binary(max_size=200))
def test_no_bytes_make_anything_but_a_value_or_a_refusal(data: bytes) -> None:
    """Whatever comes."""
    for kind in (PushWork, PushTarget, PushDone):
        try:
            decode(kind, data)
        except BadFrame as bad:
            assert str(bad).startswith(kind.__name__)  # noqa: PT017 - most bytes are refused, and some are not


PLAIN = {int, str, bytes, bool, type(None)}


def parts_of(kind: Any) -> Iterator[Any]:
    """Every type that one is made of, down to those of numbers, text and bytes."""
    if get_origin(kind) is Annotated:
        yield from parts_of(get_args(kind)[0])
    elif get_args(kind):
        yield get_origin(kind)
        for each in get_args(kind):
            if each is not Ellipsis:
                yield from parts_of(each)
    elif kind in PLAIN:
        yield kind
    elif issubclass(kind, (msgspec.Struct, tuple)):
        yield kind
        for each in get_type_hints(kind, include_extras=True).values():
            yield from parts_of(each)
    else:
        yield kind


def test_what_crosses_is_plain() -> None:
    """No callable, future, array, exception or part of the core."""
    crossing = [
        value
        for module in (push_port,)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
    ]
    assert set(crossing) == {type(each) for each in EMPTY}, "every type that crosses is tested above"
    for kind in crossing:
        for part in parts_of(kind):
            inner = PLAIN | {list, tuple, dict, UnionType, Union, Origin, *crossing}
            assert part in inner, f"{kind.__name__} has a {part}"
