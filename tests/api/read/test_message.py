"""From an object to a message: the quick path and the thorough one agree, and a refusal explains itself."""

import json
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.contract.checker import pack_headers
from api.contract.fields import MESSAGE
from api.port.message import Target
from api.port.port import DELAY_LEVELS_MS, Limits, MessageIn
from api.port.problem import Problem
from api.read.message import ODD, accept, explain
from api.read.message import parse_message as parse
from tests.api.memory_queries import NOW_MS
from tests.examples import examples

_LIMITS = Limits(body_bytes_max=200, push_allow=())


def _parse(value: Any) -> MessageIn:
    return parse(value if isinstance(value, bytes) else msgspec.json.encode(value), NOW_MS, _LIMITS)


def _refusal(value: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        _parse(value)
    return caught.value


def _pointers(problem: Problem) -> list[str]:
    return [fault.pointer for fault in problem.errors]


def test_a_whole_message() -> None:
    """Every served field arrives checked and converted."""
    sent = {
        "topic": "orders",
        "body": {"n": 1},
        "deliver_at": "2026-11-21T03:00:00.0001+00:00",
        "tags": ["eu", "vip"],
        "headers": {"X-Trace": "t"},
        "key": "k1",
        "on_conflict": "keep",
        "target": {"url": "https://e/", "method": "PUT", "headers": {"X-B": "c"}, "timeout": "5s"},
        "retry": {"max_attempts": 3, "max_age": "1h"},
    }
    message = _parse(sent)
    assert message.topic == "orders"
    assert message.body == b'{"n":1}'
    assert message.content_type == ""
    assert message.due_ms == 1_795_230_000_001
    assert message.delay_ms is None
    assert message.tags == ("eu", "vip")
    assert message.headers == pack_headers({"X-Trace": "t"})
    assert (message.key, message.on_conflict) == ("k1", "keep")
    assert message.target == Target(url="https://e/", method="PUT", headers={"X-B": "c"}, timeout_ms=5_000)
    assert msgpack.unpackb(message.extension) == {"retry": {"max_attempts": 3, "max_age_ms": 3_600_000}}
    assert message.fingerprint is not None


@pytest.mark.parametrize(
    "body",
    [b"null", b"1.0", b'"\\u00e9 \xc3\xa9"', b'{ "a" :\n [1, 2.50, 1e5] }', b'{"a":1,"a":2}', b'"' + b"x" * 198 + b'"'],
)
def test_a_body_is_kept_byte_for_byte(body: bytes) -> None:
    """White space, number shapes, escapes and repeated members of the body survive."""
    message = _parse(b'{"topic":"a", "body": ' + body + b' ,"delay":"1s"}')
    assert message.body == body
    assert message.delay_ms == 1000


def test_opaque_bytes() -> None:
    """body_base64 arrives decoded, with its content type or the default one."""
    assert _parse({"topic": "a", "body_base64": "AP8="}).body == b"\x00\xff"
    assert _parse({"topic": "a", "body_base64": ""}).content_type == "application/octet-stream"
    assert _parse({"topic": "a", "body_base64": "", "content_type": "image/png"}).content_type == "image/png"
    assert _parse({"topic": "a", "body": 1, "content_type": "application/json"}).content_type == ""


@pytest.mark.parametrize(
    ("sent", "code", "pointers"),
    [
        ({"body": 1}, "invalid-field", ["/topic"]),
        ({"topic": "a"}, "invalid-field", ["/body"]),
        ({"topic": "a", "body": 1, "dealy": "3m"}, "unknown-field", ["/dealy"]),
        ({"topic": "a", "body": 1, "delay": "3m", "deliver_at": NOW_MS}, "invalid-field", ["/delay"]),
        ({"topic": "a", "body": 1, "body_base64": ""}, "invalid-field", ["/body_base64"]),
        ({"topic": "a", "body": 1, "content_type": "text/plain"}, "invalid-field", ["/content_type"]),
        ({"topic": "a", "body": 1, "delay": "3651d"}, "beyond-max-delay", ["/delay"]),
        ({"topic": "a", "body": 1, "delay": 3651 * 86_400_000}, "beyond-max-delay", ["/delay"]),
        ({"topic": "a", "body": 1, "deliver_at": "2126-01-01T00:00:00Z"}, "beyond-max-delay", ["/deliver_at"]),
        ({"topic": "a", "body": 1, "deliver_at": NOW_MS // 1000}, "invalid-field", ["/deliver_at"]),
        ({"topic": "a", "body": 1, "delay": 1.5}, "invalid-field", ["/delay"]),
        ({"topic": "a", "body": 1, "delay": None}, "invalid-field", ["/delay"]),
        ({"topic": 5, "body": 1}, "invalid-field", ["/topic"]),
        ({"topic": "a", "body": "x" * 199}, "too-large", ["/body"]),
        ({"topic": "a", "body_base64": "AAAA" * 67}, "too-large", ["/body_base64"]),
        ({"topic": "a", "body": 1, "tags": ["a", 2]}, "invalid-field", ["/tags/1"]),
        ({"topic": "a", "body": 1, "headers": {"Host": "x"}}, "invalid-field", ["/headers/Host"]),
        ({"topic": "a", "body": 1, "on_conflict": "extend"}, "invalid-field", ["/key"]),
        ({"topic": "a", "body": 1, "on_conflict": "merge", "extend": {}}, "invalid-field", ["/on_conflict"]),
        ({"topic": "a", "body": 1, "key": "k", "extend": {}}, "invalid-field", ["/extend"]),
        (
            {"topic": "a", "body": 1, "key": "k", "on_conflict": "extend", "extend": {"max_wait": "999ms"}},
            "invalid-field",
            ["/extend/max_wait"],
        ),
        (
            {"topic": "a", "body": 1, "key": "k", "on_conflict": "extend", "extend": {"body": "both"}},
            "invalid-field",
            ["/extend/body"],
        ),
        ({"topic": "a", "body": 1, "delay_level": 0}, "invalid-field", ["/delay_level"]),
        ({"topic": "a", "body": 1, "delay_level": 19}, "invalid-field", ["/delay_level"]),
        ({"topic": "a", "body": 1, "delay_level": 1.0}, "invalid-field", ["/delay_level"]),
        ({"topic": "a", "body": 1, "delay_level": True}, "invalid-field", ["/delay_level"]),
        ({"topic": "a", "body": 1, "delay_level": 1, "delay": "1s"}, "invalid-field", ["/delay_level"]),
        (
            {"topic": "a", "body": 1, "delay_level": 1, "delay": "1s", "deliver_at": NOW_MS},
            "invalid-field",
            ["/delay", "/delay_level"],
        ),
        ({"topic": "a", "body": 1, "target": {}}, "invalid-field", ["/target/url"]),
        ({"topic": "a", "body": 1, "target": "http://e/"}, "invalid-field", ["/target"]),
        ({"topic": "a", "body": 1, "target": {"url": "http://2130706433/"}}, "invalid-field", ["/target/url"]),
        (
            {"topic": "a", "body": 1, "target": {"url": "http://e/", "method": "GET", "headers": {"Host": "x"}}},
            "invalid-field",
            ["/target/method", "/target/headers/Host"],
        ),
        ({"topic": "a", "body": 1, "target": {"url": "http://e/", "secret": "x"}}, "unknown-field", ["/target/secret"]),
        ({"topic": "a", "body": 1, "retry": {"max_attempts": 0}}, "invalid-field", ["/retry/max_attempts"]),
        ({"topic": "a", "body": 1, "retry": {"attempts": 3}}, "unknown-field", ["/retry/attempts"]),
        ({"topic": "a", "body": 1, "retry": None}, "invalid-field", ["/retry"]),
        ({"topic": "", "body": 1, "delay": -1, "x": 2}, "unknown-field", ["/topic", "/delay", "/x"]),
        ([1], "invalid-field", [""]),
        ("text", "invalid-field", [""]),
        (None, "invalid-field", [""]),
    ],
)
def test_a_refusal_names_every_fault(sent: Any, code: str, pointers: list[str]) -> None:
    """Code, and one error per fault with its pointer."""
    problem = _refusal(msgspec.json.encode(sent))
    assert (problem.code, _pointers(problem)) == (code, pointers)
    assert all(fault.detail for fault in problem.errors)


def test_delay_levels() -> None:
    """Each level stands for its delay; the operator's own levels count, and max_delay still does."""
    for level, delay_ms in enumerate(DELAY_LEVELS_MS, 1):
        assert _parse({"topic": "a", "body": 1, "delay_level": level}).delay_ms == delay_ms
    own = Limits(delay_levels_ms=(5, 60_000), max_delay_ms=10)
    assert parse(b'{"topic":"a","body":1,"delay_level":1}', NOW_MS, own).delay_ms == 5
    with pytest.raises(Problem, match="1 to 2, standing for 5ms 1m"):
        parse(b'{"topic":"a","body":1,"delay_level":3}', NOW_MS, own)
    with pytest.raises(Problem, match="max_delay = 10ms"):
        parse(b'{"topic":"a","body":1,"delay_level":2}', NOW_MS, own)


def test_a_refused_address_names_the_setting() -> None:
    """Who may change it learns where."""
    problem = _refusal({"topic": "a", "body": 1, "target": {"url": "https://0x7f.1/x"}})
    assert problem.detail == "/target/url: pushes may not go to 127.0.0.1; an operator can allow it with [push] allow"


@pytest.mark.parametrize("name", MESSAGE.planned)
def test_planned_fields_say_so(name: str) -> None:
    """Fields of the contract that are not there yet are told apart from misspelt ones."""
    problem = _refusal({"topic": "a", "body": 1, name: 1})
    assert (problem.code, _pointers(problem)) == ("not-supported-yet", [f"/{name}"])


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("dealy", "delay"), ("deliverAt", "deliver_at"), ("topics", "topic"), ("Tags", "tags"), ("retries", "retry")],
)
def test_a_misspelt_field_is_guessed(wrong: str, meant: str) -> None:
    """The refusal says which field was probably meant."""
    problem = _refusal({"topic": "a", "body": 1, wrong: 1})
    assert f'did you mean "{meant}"?' in problem.errors[0].detail


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"  ",
        b"{",
        b"nope",
        b'{"topic":"a","body":1}}',
        b'{"topic":"a","body":tru}',
        b'{"topic":"a","body":"\xff"}',
        b'{"topic":"\xff","body":1}',
        b'{"topic":"a","body":1,"key":"\\ud800"}',
        b'{"topic":"a","body":"\\ud800"}',
        b'{"topic":"a","body":"\n"}',
        b'{"topic":"a","body":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"topic":"a","body":1,"tags":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'\xef\xbb\xbf{"topic":"a","body":1}',
    ],
)
def test_what_is_no_json_is_malformed(text: bytes) -> None:
    """Broken text, broken UTF-8 (also inside a body), lone surrogates and bottomless nesting: 400, not 500."""
    assert _refusal(text).code == "malformed-json"


def _mark(**fields: Any) -> bytes:
    message = _parse({"topic": "a", "body": {"x": 1}, "delay": "1m", "key": "k", **fields})
    assert message.fingerprint is not None
    assert len(message.fingerprint) == 16
    return message.fingerprint


def test_the_same_request_has_the_same_fingerprint() -> None:
    """Order, white space, the key and on_conflict do not count."""
    base = _mark(headers={"a": "1", "b": "2"})
    assert base == _mark(headers={"b": "2", "a": "1"})
    assert base == _mark(headers={"a": "1", "b": "2"}, key="other", on_conflict="keep")
    spaced = b'{ "key":"k", "delay" : "1m", "body":{"x":1}, "headers":{"b":"2","a":"1"},\n "topic":"a" }'
    assert base == _parse(spaced).fingerprint


def test_the_order_inside_a_field_does_not_count() -> None:
    """A target or a policy is the same however its members are ordered, also those of its headers."""
    one = {"url": "http://e/", "method": "PUT", "headers": {"a": "1", "b": "2"}}
    other = {"headers": {"b": "2", "a": "1"}, "method": "PUT", "url": "http://e/"}
    assert _mark(target=one, retry={"max_attempts": 2, "max_age": 0}) == _mark(
        target=other, retry={"max_age": 0, "max_attempts": 2}
    )
    level = {"topic": "a", "body": 1, "key": "k"}
    assert _parse({**level, "delay_level": 1}).fingerprint != _parse({**level, "delay": "1s"}).fingerprint


def test_another_request_has_another_fingerprint() -> None:
    """Each field that counts changes it, and so does the body's very text."""
    variants: list[dict[str, Any]] = [
        {},
        {"topic": "b"},
        {"body": {"x": 2}},
        {"delay": "2m"},
        {"delay": 60_000},
        {"tags": []},
        {"tags": ["a"]},
        {"tags": ["b", "a"]},
        {"tags": ["a", "b"]},
        {"headers": {}},
        {"headers": {"a": "1"}},
        {"retry": {}},
        {"retry": {"max_attempts": 3}},
        {"retry": {"max_attempts": 4}},
        {"target": {"url": "http://e/"}},
        {"target": {"url": "http://e/", "headers": {}}},
        {"target": {"url": "http://e/", "headers": {"a": "1"}}},
    ]
    marks = [_mark(**variant) for variant in variants]
    marks.append(_parse(b'{"topic":"a","body":{"x": 1},"delay":"1m","key":"k"}').fingerprint or b"")
    same_bytes = {"topic": "a", "body_base64": "eyJ4IjoxfQ==", "delay": "1m", "key": "k"}
    marks.append(_parse(same_bytes).fingerprint or b"")
    marks.append(_parse({**same_bytes, "content_type": "application/octet-stream"}).fingerprint or b"")
    assert len(set(marks)) == len(marks)


def test_the_fingerprint_does_not_change_between_versions() -> None:
    """It is replicated and kept with the key: these bytes are part of the format."""
    assert _mark().hex() == "7726e0de4c95951d5228f0ebd847c5d3"
    assert _mark(tags=["eu"], headers={"b": "2", "a": "1"}).hex() == "577c911182c5d7d20cffea392436b99b"
    assert (
        _mark(target={"url": "http://e/", "headers": {"b": "2", "a": "1"}}).hex() == "1148c42a7c1e7ea35c9d755ddb615be0"
    )
    assert _mark(retry={"min_backoff": "1s", "max_attempts": 3}).hex() == "8c7ac504ed25c9e74d868543f4894c8a"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _field(*likely: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(likely) | _VALUES


OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "topic": _field("a", "orders", "a b"),
        "body": _field({"a": 1}, "x" * 300),
        "body_base64": _field("AAAA", "A"),
        "content_type": _field("text/plain", "application/json", "x"),
        "delay": _field("1s", 5, "9999d", "1"),
        "deliver_at": _field(NOW_MS, 5, "2026-11-21T02:10:20Z", "2999-01-01T00:00:00Z"),
        "tags": _field(["a"], [""], ["a"] * 17),
        "headers": _field({"x": "y"}, {"Host": "y"}, {"x": 1}),
        "key": _field("k", ""),
        "on_conflict": _field("keep", "replace", "extend", "merge"),
        "extend": _field({}, {"max_wait": "1h", "body": "first"}, {"max_wait": 0}, {"body": 1}),
        "delay_level": _field(1, 18, 19, True),
        "target": _field({"url": "http://e/"}, {"url": "http://127.0.0.1/"}, {"url": "http://e/", "timeout": "1s"}),
        "retry": _field({}, {"max_attempts": 3}, {"max_attempts": 10**30}, {"min_backoff": "1s", "max_backoff": 1}),
        "priority": _field(1),
        "dealy": _field(1),
    },
)


def _quick(text: bytes) -> MessageIn | None:
    for decoder in (MESSAGE.json, MESSAGE.opaque):
        try:
            return accept(decoder.decode(text), NOW_MS, _LIMITS)
        except ODD:
            continue
    return None


@examples(400)
@given(OBJECTS)
def test_the_quick_path_accepts_nothing_else(value: dict[str, Any]) -> None:
    """Whatever the quick path accepts, the thorough one reads the same; and neither raises but a Problem."""
    text = json.dumps(value).encode()
    quick = _quick(text)
    try:
        thorough: MessageIn | None = explain(text, NOW_MS, _LIMITS)
    except Problem:
        thorough = None
    assert quick is None or quick == thorough
    try:
        assert parse(text, NOW_MS, _LIMITS) == thorough
    except Problem:
        assert thorough is None


@examples(300)
@given(
    st.sampled_from(["a", "orders"]),
    st.sampled_from([{"body": 1}, {"body_base64": "AAAA"}, {"body_base64": "AA==", "content_type": "text/plain"}]),
    st.sampled_from(
        [{}, {"delay": "1s"}, {"deliver_at": NOW_MS}, {"deliver_at": "2026-11-21T02:10:20z"}, {"delay_level": 3}]
    ),
    st.sampled_from([{}, {"tags": ["a"]}, {"headers": {"x": "y"}}, {"key": "k"}, {"key": "k", "on_conflict": "keep"}]),
    st.sampled_from(
        [{}, {"target": {"url": "http://e/", "headers": {"x": "y"}}}, {"target": {"url": "http://8.8.8.8"}}]
    ),
    st.sampled_from([{}, {"retry": {"max_attempts": 3, "min_backoff": "1s"}}]),
)
def test_the_quick_path_takes_what_is_plain(
    topic: str,
    body: dict[str, Any],
    due: dict[str, Any],
    rest: dict[str, Any],
    target: dict[str, Any],
    retry: dict[str, Any],
) -> None:
    """Valid messages are read by the quick path: it is quick for everything that is served, not for one shape."""
    text = msgspec.json.encode({"topic": topic, **body, **due, **rest, **target, **retry})
    quick = _quick(text)
    assert quick is not None
    assert quick == explain(text, NOW_MS, _LIMITS)


@examples(300)
@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: b'{"topic":"a","body":1,' + text.encode() + b"}"))
def test_any_bytes_get_a_message_or_a_problem(text: bytes) -> None:
    """Fuzz: nothing but `Problem` comes out of any bytes."""
    status = 200
    try:
        parse(text, NOW_MS, _LIMITS)
    except Problem as problem:
        status = problem.status
    assert status in (200, 400, 413, 422)
