"""The page of formats has a line for each state, printed from the rows; other pages name each word."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from storage.format.level import LEVELS
from storage.format.states import OPEN_STANDINGS, STANDINGS, STATES, words
from tests.storage.new_state import COMMITTED, HALF, added

ROOT = Path(__file__).parents[2]
HTTP = ROOT / "docs" / "http"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that prints."""
    spec = importlib.util.spec_from_file_location("states", ROOT / "deploy" / "states.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_states_of_today(script: ModuleType) -> None:
    """`python deploy/states.py` would change nothing."""
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    assert page == script.page_with(page, script.printed(STATES.values())), "run python deploy/states.py"


def test_a_row_that_is_added_is_a_line_that_is_missing(script: ModuleType) -> None:
    """With its answers and words, and the rest as it was."""
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    with added(HALF, COMMITTED):
        table = script.printed(STATES.values())
        lines = set(script.page_with(page, table).splitlines()) - set(page.splitlines())
    assert lines == {
        f"| 16 | `half` | no | no | yes | yes | the transaction | `half` | `half` | {LEVELS[1]} |",
        f"| 17 | `committed` | yes | yes | yes | yes | the due time | as of `pending` | `committed` | {LEVELS[1]} |",
    }


def test_the_pages_of_the_api_name_each_word() -> None:
    """Those that GET says, and those that a count takes if none is named."""
    messages, counts = ((HTTP / name).read_text(encoding="utf-8") for name in ("messages.md", "counts.md"))
    _, _, table = messages.partition("| state | meaning |\n|---|---|\n")
    assert re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE) == list(STANDINGS)
    assert f"`{','.join(words(OPEN_STANDINGS))}`" in counts
