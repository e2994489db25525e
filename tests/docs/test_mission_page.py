"""The page of features names the tests that show them: all of them are there."""

import re

import pytest

from tests.docs.named import ROOT, is_there, named_in

PAGE = (ROOT / "docs" / "mission.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| [A-D][0-9]+ ", line)]
NAMED = named_in(PAGE)


def test_each_row_is_shown_by_something() -> None:
    """Unless it does not work yet."""
    assert len(ROWS) == 11
    for row, _, state, shown in ROWS:
        assert state.partition(":")[0] in ("works", "part", "not yet"), row
        assert (state == "not yet") is ("`" not in shown), row


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_is_there(name: str) -> None:
    """A file, or a test function in it."""
    assert is_there(name)
