"""Verdicts as people read them."""

import ast

from chaos.history.promises import PROMISES
from chaos.history.verdict import SHOWN, Verdict
from tests.tidy.tracked import ROOT


def test_a_promise_that_held_is_a_sentence_with_its_figures() -> None:
    """No dict and no empty figure is shown."""
    told = Verdict(
        "W", {"early": 0, "lateness_ms": {"p50": 1.2, "max": 3.0}, "other": {}, "share": None}, []
    ).describe()
    said = "held: no message was delivered before its due time (W: early 0, lateness ms (p50 1.2, max 3.0))"
    assert told == said


def test_a_broken_promise_says_where_it_broke_first() -> None:
    """The first fault is named as such; of many, the rest are counted."""
    lines = Verdict("L", {}, [f"message {number}" for number in range(SHOWN + 3)]).describe().splitlines()
    assert lines[0].startswith("BROKEN: every acknowledged message was delivered")
    assert lines[1:3] == ["   first: message 0", "   message 1"]
    assert lines[-1] == "   ... and 3 more"


def test_every_checker_judges_a_promise_that_has_a_sentence() -> None:
    """So no verdict fails on its way to the reader, and no sentence is left over."""
    named = {"end"}
    for path in (ROOT / "chaos" / "check").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Verdict":
                assert isinstance(node.args[0], ast.Constant)
                named.add(str(node.args[0].value))
    assert named == set(PROMISES)
