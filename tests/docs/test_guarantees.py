"""The page of guarantees names what holds each promise: all of it is there, and no checker is left out."""

import re

import pytest

from chaos.simulator.judge import CHECKERS
from tests.docs.named import ROOT, is_there, named_in

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = named_in(PAGE)


def test_the_page_names_what_holds_its_promises() -> None:
    """Every row of promises has at least one file; every assumption that a row rests on is in the table of them."""
    rows = re.findall(r"^\| \*\*(P\d+)\*\* .*$", PAGE, re.MULTILINE)
    assert rows == [f"P{number}" for number in range(1, len(rows) + 1)]
    assumptions = set(re.findall(r"^\| \*\*(A\d+)\*\*", PAGE, re.MULTILINE))
    for line in PAGE.splitlines():
        if line.startswith("| **P"):
            _, _, _, rests, held, _ = line.split(" | ".strip())
            assert set(re.findall(r"A\d+", rests)) <= assumptions, line
            assert re.search(r"`[a-z_]+/[\w/]+\.py", held), line


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_is_there(name: str) -> None:
    """A file, or a test function in it."""
    assert is_there(name)


def test_every_checker_is_named() -> None:
    """Those that judge each simulated run, and those of the shelf that judge real processes."""
    judging = {check.__module__.replace(".", "/") + ".py" for check in CHECKERS}
    shelf = {str(path.relative_to(ROOT)) for path in (ROOT / "chaos" / "check").rglob("[a-z]*.py")}
    assert judging <= shelf
    assert shelf <= {name.partition("::")[0] for name in NAMED}
