"""Modules that docs named before the rooms: whoever imports or runs one is told where it is now."""

import importlib
import subprocess
import sys

import pytest

MOVED = {
    "bench.reconcile_demo": "bench.demo.reconcile",
    "chaos.run": "chaos.scenario",
    "reconcile.session": "reconcile.spark.session",
    "reconcile.source": "reconcile.spark.source",
    "reconcile.standalone": "reconcile.spark.standalone",
}


@pytest.mark.parametrize(("before", "now"), MOVED.items())
def test_a_module_that_docs_named_says_where_it_is_now(before: str, now: str) -> None:
    """The import fails with the new name, which is there."""
    with pytest.raises(ImportError, match=rf"^{before} is {now} now: "):
        importlib.import_module(before)
    assert importlib.util.find_spec(now) is not None


@pytest.mark.parametrize("before", ["bench.reconcile_demo", "chaos.run"])
def test_a_command_that_docs_named_says_where_it_is_now(before: str) -> None:
    """`python -m` of the old name ends with the new one."""
    done = subprocess.run([sys.executable, "-m", before], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {before} is {MOVED[before]} now: ")
