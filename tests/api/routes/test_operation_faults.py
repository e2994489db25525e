"""Bad requests for operations over a real socket: each fault by its name, and nothing reaches the port."""

from typing import Any, Final

import pytest

from api.contract.checker import TAG_BYTES_MAX
from api.port.queries import KIND_FIELDS, NOTE_BYTES_MAX, RATE_MAX, REASON_BYTES_MAX, TOPICS_MAX
from tests.api.harness import check_problem, run, running
from tests.api.memory_queries import NOW_MS
from tests.api.routes.test_operation import BEGIN, CANCEL, ONE, SHIFT, TEN_YEARS_MS, AskedPort

NAMES: Final = [f"t{number}" for number in range(TOPICS_MAX + 1)]
NO_DURATION: Final = "whole number with one unit"
BOUNDS: Final = "1ms to 3650d"


def _refused(path: str, sent: dict[str, Any], code: str, pointer: str, says: str) -> None:
    """It is 422 with one error, and the port was not asked."""

    async def story() -> None:
        port = AskedPort()
        async with running(port) as client:
            problem = check_problem(await client.send("POST", path, sent), 422, code, pointer)
            assert says in problem["errors"][0]["detail"]
            assert says in problem["detail"]
            assert port.wishes == []

    run(story())


@pytest.mark.parametrize(
    ("sent", "code", "pointer", "says"),
    [
        ({"topic": "a"}, "invalid-field", "/kind", "kind is required"),
        ({"kind": "cancel"}, "invalid-field", "/topic", "topic is required"),
        ({"kind": "delete", "topic": "a"}, "invalid-field", "/kind", 'redrive, resend, got "delete"'),
        ({"kind": "Cancel", "topic": "a"}, "invalid-field", "/kind", 'got "Cancel"'),
        ({"kind": ["cancel"], "topic": "a"}, "invalid-field", "/kind", "got an array"),
        ({"kind": None, "topic": "a"}, "invalid-field", "/kind", "got null"),
        ({"kind": "cancel", "topic": "a", "dryrun": True}, "unknown-field", "/dryrun", 'did you mean "dry_run"?'),
        ({"kind": "cancel", "topic": "a", "form": NOW_MS}, "unknown-field", "/form", 'did you mean "from"?'),
        ({"kind": "shift", "topic": "a", "todue": NOW_MS}, "unknown-field", "/todue", 'did you mean "to_due"?'),
        ({"kind": "release", "topic": "a", "Rate": 5}, "unknown-field", "/Rate", 'did you mean "rate"?'),
        ({"kind": "cancel", "topic": "a", "x/y": 5}, "unknown-field", "/x~1y", "known fields: kind, topic, from, to"),
        ({"kind": "cancel", "topic": "a", "wait_s": 5}, "unknown-field", "/wait_s", "known fields: kind, topic"),
    ],
)
def test_bad_requests(sent: dict[str, Any], code: str, pointer: str, says: str) -> None:
    """Fields that lack, a kind that is none, and names that are not known, with the one that was meant."""
    _refused(BEGIN, sent, code, pointer, says)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("topic", "", "1 to 127"),
        ("topic", "a b", "1 to 127"),
        ("topic", "**", "1 to 127"),
        ("topic", "x" * 128, "1 to 127"),
        ("topic", 5, "got a whole number"),
        ("topic", None, "got null"),
        ("topic", {"name": "a"}, "got an object"),
        ("topic", [], f"1 to {TOPICS_MAX} topics, got 0"),
        ("topic", NAMES, f"1 to {TOPICS_MAX} topics, got {TOPICS_MAX + 1}"),
        ("topic", ["a", "b", "a"], "twice"),
        ("from", 5, "seconds"),
        ("from", None, "expected a string or integer milliseconds"),
        ("from", "2026-11-21T02:10:20", "offset"),
        ("to", "soon", "RFC 3339"),
        ("to", True, "expected a string or integer milliseconds"),
        ("tag", "", f"1 to {TAG_BYTES_MAX} bytes"),
        ("tag", "ü" * (TAG_BYTES_MAX // 2) + "x", f"1 to {TAG_BYTES_MAX} bytes"),
        ("tag", "a\n", "control"),
        ("tag", ["eu"], "expected a string"),
        ("note", "x" * (NOTE_BYTES_MAX + 1), f"at most {NOTE_BYTES_MAX} bytes"),
        ("note", "ü" * (NOTE_BYTES_MAX // 2) + "x", f"at most {NOTE_BYTES_MAX} bytes"),
        ("note", "two\nlines", "control"),
        ("note", "nul\0", "control"),
        ("note", "del\x7f", "control"),
        ("note", 5, "expected a string"),
        ("note", None, "leave the field out"),
        ("confirm", "7", "a whole number"),
        ("confirm", 7.0, "a whole number"),
        ("confirm", True, "a whole number"),
        ("confirm", None, "leave the field out"),
        ("confirm", -1, "matched of a dry run, got -1"),
        ("confirm", 1 << 63, "matched of a dry run"),
        ("dry_run", 1, "true or false"),
        ("dry_run", "true", "true or false"),
        ("dry_run", None, "leave the field out"),
    ],
)
@pytest.mark.parametrize(("path", "more"), [(BEGIN, {"kind": "resend"}), (CANCEL, {}), (SHIFT, {"by": "1h"})])
def test_bad_choices(path: str, more: dict[str, Any], field: str, value: object, says: str) -> None:
    """Each field that all kinds take, by all three routes."""
    _refused(path, {"topic": "a"} | more | {field: value}, "invalid-field", f"/{field}", says)


@pytest.mark.parametrize("topics", [["a", "-"], ["a", "*"], ["a", 5], ["a", ["b"]]])
def test_a_bad_name_in_a_list(topics: list[object]) -> None:
    """It is refused as a name alone would be; the pointer leads to the list or into it."""

    async def story() -> None:
        port = AskedPort()
        async with running(port) as client:
            problem = check_problem(await client.send("POST", CANCEL, {"topic": topics}), 422, "invalid-field")
            (error,) = problem["errors"]
            assert error["pointer"] in ("/topic", "/topic/1")
            assert port.wishes == []

    run(story())


@pytest.mark.parametrize(("path", "more"), [(BEGIN, {"kind": "resend"}), (CANCEL, {}), (SHIFT, {"by": "1h"})])
def test_a_window_that_ends_before_it_begins(path: str, more: dict[str, Any]) -> None:
    """The refusal names both times."""
    sent = {"topic": "a", "from": NOW_MS, "to": NOW_MS - 1, **more}
    _refused(path, sent, "invalid-field", "/from", "not after to, got 2026-11-21T02:10:20.125Z and")


@pytest.mark.parametrize(
    ("by", "says"),
    [
        (0, BOUNDS),
        ("0s", BOUNDS),
        ("-0d", BOUNDS),
        ("3651d", BOUNDS),
        ("-3651d", BOUNDS),
        (TEN_YEARS_MS + 1, BOUNDS),
        (-TEN_YEARS_MS - 1, BOUNDS),
        (10**30, BOUNDS),
        ("999999999999999d", BOUNDS),
        ("9999999999999999d", NO_DURATION),
        ("", NO_DURATION),
        ("-", NO_DURATION),
        ("+", NO_DURATION),
        ("--5m", NO_DURATION),
        ("+-5m", NO_DURATION),
        ("-+5m", NO_DURATION),
        ("- 5m", NO_DURATION),
        (" -5m", NO_DURATION),
        ("\u22125m", NO_DURATION),
        ("\u0665m", NO_DURATION),
        ("5m\n", NO_DURATION),
        ("5", NO_DURATION),
        ("-5", NO_DURATION),
        ("5M", NO_DURATION),
        ("1h30m", NO_DURATION),
        ("1.5h", NO_DURATION),
        (5.5, NO_DURATION),
        (-5.0, NO_DURATION),
        (True, NO_DURATION),
        (None, NO_DURATION),
        (["5m"], NO_DURATION),
    ],
)
def test_bad_by(by: object, says: str) -> None:
    """Neither nothing nor too much, and no spelling but a sign, a whole number and one unit."""
    _refused(SHIFT, {"topic": "a", "by": by}, "invalid-field", "/by", says)


@pytest.mark.parametrize(("path", "more"), [(BEGIN, {"kind": "shift"}), (SHIFT, {})])
@pytest.mark.parametrize("own", [{}, {"rate": 5}, {"by": "5m", "to_due": NOW_MS}])
def test_a_shift_goes_one_way(path: str, more: dict[str, Any], own: dict[str, Any]) -> None:
    """By a span or to a time: one of them, and not both."""
    _refused(path, {"topic": "a", **more, **own}, "invalid-field", "/by", "give one of them")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("to_due", 5, "seconds"),
        ("to_due", "now", "RFC 3339"),
        ("to_due", None, "expected a string or integer milliseconds"),
        ("to_due", 1.5, "expected a string or integer milliseconds"),
        ("rate", 0, f"1 to {RATE_MAX}, got 0"),
        ("rate", -1, f"1 to {RATE_MAX}, got -1"),
        ("rate", RATE_MAX + 1, f"1 to {RATE_MAX}, got {RATE_MAX + 1}"),
        ("rate", 10**30, f"1 to {RATE_MAX}, got far more"),
        ("rate", "5", "a whole number"),
        ("rate", 5.0, "a whole number"),
        ("rate", True, "a whole number"),
        ("rate", None, "leave the field out"),
        ("reason", "", f"1 to {REASON_BYTES_MAX} bytes"),
        ("reason", "x" * (REASON_BYTES_MAX + 1), f"1 to {REASON_BYTES_MAX} bytes"),
        ("reason", "ü" * (REASON_BYTES_MAX // 2) + "x", f"1 to {REASON_BYTES_MAX} bytes"),
        ("reason", "a\t", "control"),
        ("reason", 503, "expected a string"),
        ("reason", ["timeout"], "expected a string"),
        ("reason", None, "leave the field out"),
    ],
)
def test_bad_own_fields(field: str, value: object, says: str) -> None:
    """Each of a kind that takes it."""
    kind = {"to_due": "shift", "rate": "release", "reason": "redrive"}[field]
    _refused(BEGIN, {"kind": kind, "topic": "a", field: value}, "invalid-field", f"/{field}", says)


_OWN: Final = {"by": "5m", "to_due": NOW_MS, "rate": 5, "reason": "timeout"}


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, fields in KIND_FIELDS.items() for field in _OWN if field not in fields]
)
def test_fields_of_another_kind(kind: str, field: str) -> None:
    """They are not ignored: the refusal says which kinds take them."""
    more = {"by": "1h"} if kind == "shift" else {}
    taking = next(each for each, names in KIND_FIELDS.items() if field in names)
    says = f"a {kind} takes no {field}; it goes with: {taking}"
    _refused(BEGIN, {"kind": kind, "topic": "a", field: _OWN[field], **more}, "invalid-field", f"/{field}", says)


@pytest.mark.parametrize(
    ("path", "field"), [(path, field) for path in (CANCEL, SHIFT) for field in ("kind", "reason")] + [(CANCEL, "by")]
)
def test_fields_that_a_route_does_not_know(path: str, field: str) -> None:
    """The routes of messages know their kind, and only what it takes."""
    more = {"by": "1h"} if path == SHIFT else {}
    sent = {"topic": "a", **more, field: {"kind": path.rpartition("/")[2], **_OWN}[field]}
    _refused(path, sent, "unknown-field", f"/{field}", "known fields: topic, from, to, tag, note, confirm, dry_run")


def test_all_faults_at_once() -> None:
    """Each wrong field is an error of its own; so is each that lacks."""

    async def story() -> None:
        port = AskedPort()
        async with running(port) as client:
            for path, sent, code, pointers in (
                (BEGIN, {}, "invalid-field", {"/kind", "/topic"}),
                (BEGIN, {"kind": "cancel", "topics": ["a"]}, "unknown-field", {"/topics", "/topic"}),
                (SHIFT, {"rate": 0, "by": "x", "topic": "-"}, "invalid-field", {"/rate", "/by", "/topic"}),
            ):
                problem = check_problem(await client.send("POST", path, sent), 422, code)
                assert {error["pointer"] for error in problem["errors"]} == pointers
                assert f"(and {len(pointers) - 1} more, see errors)" in problem["detail"]
            assert port.wishes == []

    run(story())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (BEGIN, {"kind": "cancel", "topic": "a"}),
        (CANCEL, {"topic": "a"}),
        (SHIFT, {"topic": "a", "by": "1h"}),
        (f"{ONE}/pause", {}),
        (f"{ONE}/resume", {}),
        (f"{ONE}/abort", {}),
    ],
)
def test_bad_ways_of_sending(path: str, body: dict[str, Any]) -> None:
    """Another type, a parameter, and bodies that are no object."""

    async def story() -> None:
        port = AskedPort()
        async with running(port) as client:
            for content_type in ("text/plain", "application/x-ndjson"):
                reply = await client.send("POST", path, body, {"Content-Type": content_type})
                assert "application/json" in check_problem(reply, 415, "unsupported-media-type")["detail"]
            problem = check_problem(await client.send("POST", f"{path}?dry_run=true", body), 422, "unknown-field", "")
            assert problem["errors"][0]["parameter"] == "dry_run"
            for text in (b"[]", b"null", b"5", b'"a"', b"true"):
                problem = check_problem(await client.send("POST", path, text), 422, "invalid-field", "")
                assert "an object" in problem["errors"][0]["detail"]
            for text in (b"{", b"{}{}", b" ", b'{"note": "\\ud800"}', b'{"note": "\xff"}')[: 3 if body == {} else 5]:
                check_problem(await client.send("POST", path, text), 400, "malformed-json")
            reply = await client.send("POST", path, {**body, "speed": 5})
            check_problem(reply, 422, "unknown-field", "/speed")
            assert (port.wishes, port.verbs) == ([], [])

    run(story())


@pytest.mark.parametrize(
    ("path", "code", "parameter", "says"),
    [
        (f"{BEGIN}?limit=0", "invalid-field", "limit", "1 to 1000"),
        (f"{BEGIN}?limit=1001", "invalid-field", "limit", "1 to 1000"),
        (f"{BEGIN}?limit=-1", "invalid-field", "limit", 'got "-1"'),
        (f"{BEGIN}?limit=1&limit=2", "invalid-field", "limit", "twice"),
        (f"{BEGIN}?cursor=", "invalid-field", "cursor", "next_cursor"),
        (f"{BEGIN}?cursor={'x' * 1025}", "invalid-field", "cursor", "next_cursor"),
        (f"{BEGIN}?state=running", "unknown-field", "state", "known: limit, cursor"),
        (f"{ONE}?limit=1", "unknown-field", "limit", "known: none"),
    ],
)
def test_bad_queries(path: str, code: str, parameter: str, says: str) -> None:
    """Each parameter at fault is named, with its limit."""

    async def story() -> None:
        async with running() as client:
            (error,) = check_problem(await client.send("GET", path), 422, code, "")["errors"]
            assert error["parameter"] == parameter
            assert says in error["detail"]

    run(story())
