"""Files that pages and the code's own words name are there: who moves one has to say so everywhere."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "api", "bench", "chaos", "cli", "client", "deploy", "examples", "ledger", "node", "reconcile", "replication",
    "storage",
)  # fmt: skip
PAGES = [
    *("README.md", "CONTRIBUTING.md", "examples/README.md"),
    *(str(page.relative_to(ROOT)) for folder in ("docs", "docs/http") for page in sorted((ROOT / folder).glob("*.md"))),
]
"""Not CHANGELOG.md and docs/adr: they tell what was."""
FILES = [
    str(path.relative_to(ROOT))
    for folder in (*FOLDERS, "tests")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
]
NAMED = re.compile(r"(?<![\w./*<{-])((?:[a-z_0-9]+/)*[a-z_0-9*]+\.py)\b(?!/)")
OTHERS = {"asyncio/base_events.py", "asyncio/events.py", "asyncio/runners.py", "syncobj.py"}
"""Of Python, and of pysyncobj."""


def missing(text: str) -> list[str]:
    """The files that it names, as they are told, of which the tree has none that ends so."""
    told = sorted(set(NAMED.findall(text)) - OTHERS)
    return [name for name in told if not any(fnmatch(f"/{path}", f"*/{name}") for path in FILES)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_files_that_are_there(page: str) -> None:
    """By their whole path, or by the end of it; a star stands for any letters."""
    assert missing((ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_code_names_files_that_are_there(folder: str) -> None:
    """In docstrings and comments."""
    sources = [path for path in FILES if path.startswith(f"{folder}/")]
    found = {path: names for path in sources if (names := missing((ROOT / path).read_text(encoding="utf-8")))}
    assert found == {}


def test_a_file_that_is_gone_is_found() -> None:
    """Told with its folders, without, or with a star."""
    text = (
        "`node/gone.py`, gone.py and tests/node/test_gone*.py; node/group/group.py, server.py and tests/docs/test_p*.py"
    )
    assert missing(text) == ["gone.py", "node/gone.py", "tests/node/test_gone*.py"]
