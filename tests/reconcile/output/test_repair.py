"""Repairs over HTTP: twice is once, nothing on a guess, and every outcome has a name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from reconcile.files.problem import DataRefused
from reconcile.output.directory import REPAIRS_TABLE, REPORT
from reconcile.output.repair import DONE, GONE, LATER, NOT_NEEDED, Repair, carry_out, read_repairs
from reconcile.output.tables import REDELIVER, REPAIRS_SCHEMA, SUPPRESS, write_parquet

ID = "01"


class Service:
    """A service of a few messages that answers as the API does, keys included."""

    def __init__(self, **states: str) -> None:
        self.states = states
        self.made: dict[str, dict[str, Any]] = {}
        self.refuses: tuple[int, str] | None = None

    def __call__(self, method: str, path: str, document: Mapping[str, Any] | None) -> tuple[int, Mapping[str, Any]]:
        """One request."""
        if self.refuses is not None:
            return self.refuses[0], {"code": self.refuses[1]}
        if method == "POST":
            assert document is not None
            self.made.setdefault(document["key"], dict(document))
            return 201, {"id": f"new {document['key']}"}
        state = self.states.get(path.removeprefix("/v1/messages/"))
        if state is None:
            return 404, {"code": "unknown-message"}
        if method == "GET":
            return 200, {
                "state": state, "topic": "orders", "body_base64": "eA==", "content_type": "text/plain",
                "tags": ["eu"], "headers": {"a": "b"}, "key": "mine", "target": None,
            }  # fmt: skip
        assert method == "DELETE"
        if state in ("scheduled", "ready", "cancelled"):
            self.states[path.removeprefix("/v1/messages/")] = "cancelled"
            return 200, {"result": "cancelled"}
        return 409, {"code": "leased" if state == "leased" else "already-settled"}


def test_what_was_lost_comes_again_once() -> None:
    """Content, tags and headers of the message, under a key that makes the second run the first one's answer."""
    service = Service(**{ID: "delivered"})
    repair = Repair(REDELIVER, "never_received", ID)
    assert [carry_out(repair, service).word for _ in range(2)] == [DONE, DONE]
    assert service.made == {
        f"repair-{ID}": {
            "topic": "orders", "body_base64": "eA==", "content_type": "text/plain", "tags": ["eu"],
            "headers": {"a": "b", "repair-of": ID}, "key": f"repair-{ID}",
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("action", "state", "word"),
    [
        (REDELIVER, "ready", NOT_NEEDED),
        (REDELIVER, "leased", NOT_NEEDED),
        (REDELIVER, "what a newer build says", NOT_NEEDED),
        (REDELIVER, None, GONE),
        (SUPPRESS, "scheduled", DONE),
        (SUPPRESS, "cancelled", DONE),
        (SUPPRESS, "leased", LATER),
        (SUPPRESS, "delivered", NOT_NEEDED),
        (SUPPRESS, None, GONE),
    ],
)
def test_nothing_is_done_on_a_guess(action: str, state: str | None, word: str) -> None:
    """A message that is open is not sent again beside itself, one that has ended is not cancelled."""
    service = Service(**{} if state is None else {ID: state})
    assert carry_out(Repair(action, "", ID), service).word == word
    assert not service.made


def test_a_service_that_cannot_now_is_asked_again() -> None:
    """503 is `later`, for either action."""
    service = Service(**{ID: "delivered"})
    service.refuses = (503, "no-leader")
    for action in (REDELIVER, SUPPRESS):
        outcome = carry_out(Repair(action, "", ID), service)
        assert (outcome.word, "no-leader" in outcome.said) == (LATER, True)


def test_repairs_are_read_from_a_finished_output(tmp_path: Path) -> None:
    """Every row of every file; a directory that is none is refused by name."""
    with pytest.raises(DataRefused, match=str(tmp_path)):
        list(read_repairs(tmp_path))
    (tmp_path / REPAIRS_TABLE).mkdir()
    (tmp_path / REPORT).write_text("{}")
    columns = [["suppress", "redeliver"], ["scheduled_twice", "no_trace"], ["a", "b"], ["t"] * 2, ["pending"] * 2, [1] * 2]  # fmt: skip  # noqa: E501
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, REPAIRS_SCHEMA, strict=True)]
    write_parquet(pa.Table.from_arrays(arrays, schema=REPAIRS_SCHEMA), tmp_path / REPAIRS_TABLE / "1.parquet")
    assert list(read_repairs(tmp_path)) == [
        Repair("suppress", "scheduled_twice", "a"),
        Repair("redeliver", "no_trace", "b"),
    ]
