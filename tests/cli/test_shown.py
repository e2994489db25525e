"""What tables show: words, text in place of base64, and how far off a time is."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.shown import TIMES, away, body, field, plain, time_ms_of, words
from tests.tidy.tracked import ROOT

NOW_MS = 1_800_000_000_000
S, MIN, H, D = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("off_ms", "said"),
    [
        (0, "now"),
        (499, "now"),
        (-499, "now"),
        (S, "in 1 s"),
        (-3 * S, "3 s ago"),
        (H - 1, "in 1 h"),
        (90 * MIN - 40, "in 1 h 30 min"),
        (H - 1 - S, "in 59 min"),
        (-(59 * MIN + 59 * S), "59 min ago"),
        (H, "in 1 h"),
        (-(H + 5 * MIN + 7 * S), "1 h 5 min ago"),
        (2 * D + 3 * H, "in 2 d 3 h"),
        (2 * D + 3 * MIN, "in 2 d"),
        (-400 * D, "400 d ago"),
    ],
)
def test_away(off_ms: int, said: str) -> None:
    """Two units at most. A message that was just made with a delay of 10 s is due `in 10 s`."""
    assert away(NOW_MS + off_ms, NOW_MS) == said


@given(st.integers(-(10**12), 10**12))
def test_away_is_right_to_its_smallest_unit(off_ms: int) -> None:
    """Read back, it is at most a unit nearer than the time is, and at most half a second farther."""
    parts = away(NOW_MS + off_ms, NOW_MS).removeprefix("in ").removesuffix(" ago").split()
    sizes = {"s": S, "min": MIN, "h": H, "d": D}
    told_ms = sum(int(count) * sizes[unit] for count, unit in zip(parts[::2], parts[1::2], strict=False))
    smallest = {"s": S, "min": MIN, "h": MIN, "d": H}[parts[1]] if len(parts) > 1 else S
    assert told_ms - 500 <= abs(off_ms) < told_ms + smallest


def test_only_fields_that_hold_a_time_are_shown_as_one() -> None:
    """A key may look like a time; a node's name stands in `from` of a transfer."""
    text = "2027-01-15T08:01:00.000Z"
    assert time_ms_of(text) == NOW_MS + MIN
    assert field("due", text, NOW_MS) == f"{text} (in 1 min)"
    assert field("key", text, NOW_MS) == text
    assert field("from", "n1", NOW_MS) == "n1"
    assert field("due", "2027-99-15T08:01:00.000Z", NOW_MS) == "2027-99-15T08:01:00.000Z"
    assert field("settled", None, NOW_MS) == "-"


def test_every_time_of_the_contract_is_known() -> None:
    """A new field that holds a time is shown as one."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    found = {
        name
        for shape in document["components"]["schemas"].values()
        for name, schema in shape.get("properties", {}).items()
        if "date-time" in json.dumps(schema) and "properties" not in json.dumps(schema)
    }
    assert found == TIMES


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "-"),
        (True, "yes"),
        (0.5, "0.5"),
        ([], "-"),
        ({}, "-"),
        (["a", 1], "a, 1"),
        ({"url": "http://h", "timeout": None, "headers": {"x": "1"}}, "url http://h, headers (x 1)"),
        ([{"a": 1}], "(a 1)"),
        ("two\nlines \x1b[31m", "two\\nlines \\x1b[31m"),
    ],
)
def test_words(value: object, said: str) -> None:
    """No braces, no quotes, nothing that a terminal acts on."""
    assert words(value) == said


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"body": "text"}, "text"),
        ({"body": {"a": [1, None]}}, '{"a": [1, null]}'),
        ({"body": None}, "null"),
        ({}, None),
        ({"body_base64": base64.b64encode("hé\n".encode()).decode()}, "hé\\n"),
        ({"body_base64": base64.b64encode(b"\xff" * 12).decode()}, "<12 bytes>"),
        ({"body_base64": base64.b64encode(b"a\0b").decode()}, "<3 bytes>"),
        ({"body_base64": ""}, "<0 bytes>"),
    ],
)
def test_body(message: dict[str, object], said: str | None) -> None:
    """Text where it is text."""
    assert body(message) == said


@given(st.text())
def test_plain_text_is_one_line_that_prints(text: str) -> None:
    """Whatever a client stored."""
    assert plain(text).isprintable()
