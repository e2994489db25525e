"""Modules that docs/spark.md once named stand elsewhere now."""

import importlib
import importlib.util

import pytest


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("reconcile.source", "reconcile.spark.source"),
        ("reconcile.session", "reconcile.spark.session"),
        ("reconcile.standalone", "reconcile.spark.standalone"),
    ],
)
def test_who_imports_a_module_that_has_moved_is_told_where_it_is(before: str, now: str) -> None:
    """And it is there."""
    with pytest.raises(ImportError, match=rf"^{before} is {now} now: import that$"):
        importlib.import_module(before)
    assert importlib.util.find_spec(now) is not None
