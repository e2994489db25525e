"""Figures beside their targets and beside peers."""

import json

import pytest

from bench.row import Row, at_least, at_most, document, ratio, show


@pytest.mark.parametrize(
    ("value", "target", "reached"),
    [
        (200.0, at_least(200), True),
        (199.9, at_least(200), False),
        (15.0, at_most(15), True),
        (15.1, at_most(15), False),
        (1.0, None, None),
        (None, at_most(15), None),
    ],
)
def test_reached(value: float | None, target: object, reached: bool | None) -> None:
    """The bound itself keeps the promise; nothing promised or measured is neither."""
    assert Row("f", value, "u", target=target).reached is reached  # type: ignore[arg-type]


def test_ratio_is_of_the_same_figure() -> None:
    """Ours over the peer's where both were measured; no other pair."""
    rows = [Row("a", 300.0, "u"), Row("a", 100.0, "u", system="redis"), Row("b", 5.0, "u", system="redis")]
    assert [ratio(row, rows) for row in rows] == [None, 3.0, None]


def test_last_line_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Every row with its target as text, what was reached, and what is missing."""
    rows = [Row("a", 300.0, "msg/s", 2.0, at_least(200), detail={"messages": 600})]
    rows.append(Row("redis", None, "", system="redis", detail={"missing": "not installed"}))
    show(rows)
    said = capsys.readouterr().out.splitlines()
    assert json.loads(said[-1]) == document(rows)
    assert document(rows)[0] | {"target": ">= 200", "reached": True, "took_s": 2.0} == document(rows)[0]
    assert document(rows)[1]["value"] is None
    assert any("NO" not in line and "yes" in line for line in said)
    assert any("missing not installed" in line for line in said)
