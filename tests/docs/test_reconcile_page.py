"""docs/reconcile.md explains the ledger's words as the report does, and leaves none out."""

import re
from pathlib import Path

import pytest

from reconcile.report.words import CAUSES, CLASSES, FLAGS, LATE_CAUSES, Said

PAGE = (Path(__file__).parents[2] / "docs" / "reconcile.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "words"), [("classes", CLASSES), ("flags", FLAGS), ("late_causes", LATE_CAUSES), ("causes", CAUSES)]
)
def test_table_says_what_the_report_says(name: str, words: dict[str, Said]) -> None:
    """Word by word, in the same order."""
    table = re.search(rf"<!-- {name} -->\n((?:\|.*\n)+)", PAGE)
    assert table is not None, name
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table[1], re.MULTILINE)
    assert rows == [(word, said.sentence) for word, said in words.items()]


def test_pictures_are_there() -> None:
    """Every picture that the page shows is in the tree."""
    for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / target).is_file(), target
