"""docs/spark.md has the tables and options that the data source has."""

import re
from pathlib import Path

import pytest

import reconcile.spark.source
from reconcile.spark.schema import TABLES

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_columns_of_each_table(name: str) -> None:
    """In their order, with their types and what they say."""
    rows = "".join(f"| `{column.name}` | {column.kind} | {column.says} |\n" for column in TABLES[name])
    assert f"<!-- {name} -->\n| column | type | |\n|---|---|---|\n{rows}\n" in PAGE


def test_the_page_has_the_options_of_the_source() -> None:
    """Those in the docstring of reconcile/spark/source.py, and no others."""
    documented = set(re.findall(r"^\| (\w+)(?:, (\w+))? \|", reconcile.spark.source.__doc__ or "", re.MULTILINE))
    names = {name for pair in documented for name in pair if name} - {"option"}
    shown = re.search(r"\| option \| \|\n\|---\|---\|\n((?:\|[^\n]*\n)+)", PAGE)
    assert shown is not None
    first = [row.split("|")[1] for row in shown[1].splitlines()]
    assert names == {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
