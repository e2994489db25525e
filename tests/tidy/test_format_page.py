"""docs/format.md shows the rulers of the code, and none that the code does not have."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- (\S+) -->\n(```\n.*?```|(?:\|[^\n]*\n)+)", PAGE, re.DOTALL)


def test_every_fenced_block_names_its_module() -> None:
    """A ruler without a source could not be checked."""
    fenced = [block for _, block in SHOWN if block.startswith("```")]
    assert len(fenced) == PAGE.count("```") // 2


@pytest.mark.parametrize(("module", "block"), SHOWN, ids=[f"{i}-{m}" for i, (m, _) in enumerate(SHOWN)])
def test_the_page_shows_what_the_module_says(module: str, block: str) -> None:
    """Each block stands, letter for letter, in the docstring of the module that reads and writes those bytes."""
    docstring = ast.get_docstring(ast.parse((ROOT / module).read_text(encoding="utf-8"))) or ""
    assert block.strip() in docstring, module


RULED = [
    "storage/format/rows.py",
    "storage/record/record.py",
    "storage/checkpoint/manifest.py",
    "replication/journal/record.py",
    "replication/command/entry.py",
]


@pytest.mark.parametrize("module", RULED)
def test_no_ruler_is_left_out(module: str) -> None:
    """Every ruler of the modules that own files is on the page."""
    docstring = ast.get_docstring(ast.parse((ROOT / module).read_text(encoding="utf-8"))) or ""
    for block in re.findall(r"```\n.*?```", docstring, re.DOTALL):
        assert block in PAGE, f"{module}: {block}"
