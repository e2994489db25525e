"""docs/semantics.md is as the tests of tests/semantics have it, and its tables have no hole."""

from deploy import semantics


def test_the_page_is_as_it_would_be_written() -> None:
    """`python deploy/semantics.py` rewrites it."""
    assert semantics.PAGE.read_text(encoding="utf-8") == semantics.page()


def test_each_kind_meets_each_event() -> None:
    """A row of the table has as many cells as its head, and names a test in each."""
    lines = semantics.PAGE.read_text(encoding="utf-8").splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("| kind |"))
    rows = [line for line in lines[head + 2 :] if line.startswith("| ")][:7]
    assert len(rows) == 7
    assert {row.count("`test_cell") for row in rows} == {lines[head].count(" | ")}
