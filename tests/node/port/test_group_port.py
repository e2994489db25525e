"""All that a front and a group exchange goes through the codec and comes back equal, or is refused by name."""

import asyncio
import types
import typing
from typing import Annotated, Any, get_type_hints

import msgspec
import pytest

from api.port.problem import FieldFault, Problem
from node.port.codec import BadFrame, decode, encode
from node.port.group_frames import OPERATIONS, GroupFrames, Nothing, read_answer
from node.port.group_port import ClusterDocument, GroupStatus, ReceiptKey
from node.port.message_port import CancelAsked
from node.port.plain import Plain
from node.port.pull_port import Claims, Deliveries, MoreOfDelivery
from node.port.refusal import Refusal

KINDS = sorted(
    {kind for operation in OPERATIONS.values() for kind in operation} | {GroupStatus, Claims, Refusal},
    key=lambda kind: kind.__name__,
)
OF_BUILTINS: dict[Any, Any] = {int: 1, float: 1.5, str: "text", bytes: b"\x01\x02", bool: True, Any: {"a": [1, None]}}


def example(kind: Any, depth: int = 0) -> Any:
    """A value of this type in which nothing is empty."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        (meta,) = of[1:]
        size = meta.min_length or 0
        return example(of[0]) if not size else bytes(size)
    if origin in (types.UnionType, typing.Union):
        return example(next(one for one in of if one not in (type(None), msgspec.UnsetType)))
    if origin is typing.Literal:
        return of[0]
    if kind in OF_BUILTINS:
        return OF_BUILTINS[kind]
    if origin is tuple:
        return tuple(example(one) for one in of if one is not ...)
    if origin is frozenset:
        return frozenset([example(of[0])])
    if origin is not None and issubclass(origin, typing.Mapping):
        return {example(of[0]): example(of[1])}
    if origin is not None:
        return (example(of[0]),)
    return kind(**{name: example(each) for name, each in get_type_hints(kind, include_extras=True).items()})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_type_comes_back(kind: type[msgspec.Struct]) -> None:
    """With something in each of its fields: the same bytes again."""
    value = example(kind)
    again = decode(kind, encode(value))
    assert encode(again) == encode(value)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if issubclass(kind, Plain) and kind is not Nothing])
def test_what_is_too_long_or_of_another_type_is_refused_by_type(kind: type[msgspec.Struct]) -> None:
    """One field more than there are, and a field of a type that no field has."""
    fields = list(msgspec.msgpack.decode(encode(example(kind))))
    for wrong in ([*fields, 1], [msgspec.msgpack.Ext(5, b"odd"), *fields[1:]]):
        with pytest.raises(BadFrame, match=kind.__name__):
            decode(kind, msgspec.msgpack.encode(wrong))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (GroupStatus(group=1 << 16, node="n1"), "GroupStatus.group"),
        (GroupStatus(group=0, node="n1", term=-1), "GroupStatus.term"),
        (GroupStatus(group=0, node="n1", receipts=ReceiptKey(b"k", 7)), "GroupStatus.receipts.whole"),  # type: ignore[arg-type]
        (Deliveries(topic=1 << 32), "Deliveries.topic"),
        (Deliveries(more={0: MoreOfDelivery(priority=1 << 16)}), "Deliveries.more"),
        (Claims("t\ud800", b""), "Claims.topic"),
    ],
)
def test_what_is_not_of_its_type_is_refused_by_type_and_field(value: msgspec.Struct, says: str) -> None:
    """By who writes it, or by who reads it."""
    with pytest.raises(BadFrame, match=says):
        decode(type(value), encode(value))


def _structs(kind: Any) -> set[type[msgspec.Struct]]:
    """Those that a value of this type may hold, it among them."""
    found: set[type[msgspec.Struct]] = set()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        found = {kind}.union(*map(_structs, get_type_hints(kind, include_extras=True).values()))
    return found.union(*map(_structs, typing.get_args(kind)))


CROSSING = sorted(set().union(*map(_structs, KINDS)), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", CROSSING, ids=lambda kind: kind.__name__)
def test_a_field_that_nobody_knows_is_refused_wherever_it_stands(kind: type[msgspec.Struct]) -> None:
    """A filter of a later build that is left out would take more than was asked for."""
    fields = msgspec.msgpack.decode(encode(example(kind)))
    more = [*fields, 1] if isinstance(fields, list) else {**fields, "only_these": 1}
    with pytest.raises(BadFrame, match=kind.__name__):
        decode(kind, msgspec.msgpack.encode(more))


def test_what_a_group_raises_does_not_cross() -> None:
    """It is told of in the log of its node."""

    async def fails(_: Any) -> None:
        raise ZeroDivisionError

    async def play() -> bytes:
        port = typing.cast(Any, types.SimpleNamespace(cancel=fails))
        return await GroupFrames(port).call("cancel", encode(CancelAsked("m")), 0)

    with pytest.raises(Problem, match="internal: see the log"):
        read_answer("cancel", asyncio.run(play()))


def test_what_is_nested_too_deeply_is_refused_by_type() -> None:
    """In a field of any kind, as the metrics of a group have."""
    deep = b"\x91" * 100_000 + b"\xc0"
    with pytest.raises(BadFrame, match="ClusterDocument: nested too deeply"):
        decode(ClusterDocument, b"\x91\x81\xa1a" + deep)


def test_a_refusal_is_the_same_problem_on_the_other_side() -> None:
    """With all that it says."""
    problem = Problem(
        "key-conflict", "held", errors=[FieldFault("/key", "held")], retry_after_s=7, headers={"Allow": "GET"}, id="X"
    )
    again = decode(Refusal, encode(Refusal.of(problem))).problem()
    assert again.shape() == problem.shape()
    assert (again.retry_after_s, again.headers, again.errors) == (7, {"Allow": "GET"}, problem.errors)


def test_a_refusal_of_a_later_build_tells_nothing_for_sure() -> None:
    """Its code is not known here: whether something was done cannot be said."""
    problem = Refusal("a-code-of-next-year", "not now").problem()
    assert (problem.code, "a-code-of-next-year: not now" in problem.detail) == ("outcome-unknown", True)


async def _answer(frame: bytes) -> bytes:
    return await GroupFrames(typing.cast(Any, types.SimpleNamespace(cancel=None))).call("cancel", frame, 0)


@pytest.mark.parametrize("frame", [b"", b"\xc1", b"\x91\x01", b"\x92\xa1\xff\xc0", b"\x93\xa1a\xc0\x01"])
def test_a_group_refuses_a_call_that_it_cannot_read(frame: bytes) -> None:
    """By the type that is asked for; nothing is carried out."""
    with pytest.raises(Problem, match=r"internal: .*CancelAsked"):
        read_answer("cancel", asyncio.run(_answer(frame)))
