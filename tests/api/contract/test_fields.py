"""The fields of this build: each row's example, words and bound."""

from typing import Any

import msgspec
import pytest

from api.contract.field import BODY, EXTENSION, Field
from api.contract.fields import MESSAGE
from api.port.port import Limits, MessageIn
from api.read.message import accept, explain
from storage.record.record import EXTENSION_OF_APPLY
from tests.api.memory_queries import NOW_MS

_LIMITS = Limits(push_allow=())
_ROWS = list(MESSAGE.rows.values())
_SERVED = list(MESSAGE.served)


def _names(rows: list[Field]) -> list[str]:
    return [row.name for row in rows]


def smallest(row: Field) -> dict[str, Any]:
    """The smallest message with that field, each with the example of its row."""
    body = "body_base64" if BODY in row.clash else BODY
    found = {name: MESSAGE.rows[name].example for name in dict.fromkeys(("topic", body, row.name))}
    return found | {"key": "k", "on_conflict": "extend"} if row.name == "extend" else found


def _read(message: dict[str, Any]) -> MessageIn:
    data = msgspec.json.encode(message)
    quick = accept((MESSAGE.opaque if "body_base64" in message else MESSAGE.json).decode(data), NOW_MS, _LIMITS)
    assert quick == explain(data, NOW_MS, _LIMITS)
    return quick


@pytest.mark.parametrize("row", _SERVED, ids=_names(_SERVED))
def test_the_example_of_a_row_is_taken(row: Field) -> None:
    """Both ways, and it makes a difference."""
    without = {name: value for name, value in smallest(row).items() if name != row.name}
    found = _read(smallest(row))
    assert row.required or found != _read(without)


@pytest.mark.parametrize("row", _ROWS, ids=_names(_ROWS))
def test_a_row_is_for_people(row: Field) -> None:
    """Sentences, short ones; the example of a planned field is right too."""
    assert row.said.endswith((".", ")."))
    assert all(len(sentence.split()) <= 20 for sentence in row.said.split(". "))
    row.read(msgspec.json.encode(row.example) if row.name == BODY else row.example, NOW_MS, _LIMITS)


@pytest.mark.parametrize("row", _SERVED, ids=_names(_SERVED))
def test_the_fingerprint_covers_every_field_but_three(row: Field) -> None:
    """One that it forgot would make two different requests one replay. The key is what they share. `on_conflict` and
    `extend` say what happens when they do not."""
    sent = {**smallest(row), "key": "k"}
    other = {name: value for name, value in sent.items() if name != row.name}
    if row.name == "topic":
        other["topic"] = "others"
    elif row.name in (BODY, "body_base64"):
        other[row.name] = "AAEC" if row.example != "AAEC" else "AAED"
    elif row.name == "key":
        other["key"] = "another"
    same = _read(sent).fingerprint == _read(other).fingerprint
    assert same is (row.name in ("key", "on_conflict", "extend"))
    assert row.fingerprinted is not same


def test_the_largest_policy_fits_its_bound() -> None:
    """What is refused is past a limit that its checker names."""
    largest = {"max_attempts": 1000, "min_backoff": "7d", "max_backoff": "7d", "max_age": "3650d"}
    row = MESSAGE.rows["retry"]
    assert row.stored == EXTENSION
    assert 70 < len(row.read(largest, NOW_MS, _LIMITS)) <= row.kind.bytes_max


def test_what_is_kept_of_a_policy_is_of_the_format() -> None:
    """Records of before are read, and those of now are as they were: these bytes stand on disk."""
    sent = {"max_age": "1h", "max_attempts": 3}
    message = _read({"topic": "a", "body": 1, "retry": sent})
    kept = "82ac6d61785f617474656d70747303aa6d61785f6167655f6d73ce0036ee80"
    assert message.extension.hex() == "81a57265747279" + kept
    assert MESSAGE.rows["retry"].kind.show({"max_attempts": 3, "max_age_ms": 3_600_000}) == {
        "max_attempts": 3,
        "max_age": "1h",
    }
    assert MESSAGE.rows["retry"].kind.show({}) is None
    assert not EXTENSION_OF_APPLY & MESSAGE.rows.keys()
