"""docs/openapi.json is what the routes and fields of today print."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def printer() -> ModuleType:
    """The script that prints."""
    spec = importlib.util.spec_from_file_location("openapi", ROOT / "deploy" / "openapi.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_that_of_today(printer: ModuleType) -> None:
    """`python deploy/openapi.py` would change nothing."""
    found = (ROOT / "docs" / "openapi.json").read_text(encoding="utf-8")
    assert found == printer.printed(), "run python deploy/openapi.py, and read the difference: clients are made from it"


def test_what_is_written_is_the_document(printer: ModuleType) -> None:
    """Whatever stands on one line, or on many."""
    document: dict[str, Any] = {"a": [1, {"b": "c" * 100}, []], "d": {}, 'e "f"': ["g" * 60, "h" * 60], "i": None}
    text = printer.written(document)
    assert json.loads(text) == document
    assert max(map(len, text.splitlines())) <= printer.WIDTH
    assert printer.written({"a": [1, 2]}) == '{"a": [1, 2]}'
