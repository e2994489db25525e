"""The picture of the rooms is drawn from the table that the tests check."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    """The script that draws."""
    spec = importlib.util.spec_from_file_location("rooms", ROOT / "deploy" / "rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_rooms_of_today(rooms: ModuleType) -> None:
    """`python deploy/rooms.py` would change nothing."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert page == rooms.drawn(page), "run python deploy/rooms.py"


def test_a_room_stands_above_what_it_imports(rooms: ModuleType) -> None:
    """And beside what it imports in a circle."""
    assert rooms.floors({"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": set()}) == [["a"], ["b"], ["c", "d"]]
    assert rooms.floors({"a": {"b"}, "b": {"a", "c"}, "c": set(), "d": {"a"}}) == [["d"], ["a", "b"], ["c"]]
