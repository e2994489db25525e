"""Write docs/semantics.md from the names and docstrings of the tests in tests/semantics.

python deploy/semantics.py          rewrite the page
python deploy/semantics.py --check  fail if the page is not as it would be written
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "semantics.md"
CELLS: Final = "tests/semantics"
_BY_EVENT, _BY_KIND, _BY_RECONCILIATION = (
    f"{CELLS}/test_kind_by_{name}.py" for name in ("event", "kind", "reconciliation")
)
_KINDS, _LIVES = (f"{CELLS}/{name}.py" for name in ("kinds", "lives"))
_ID: Final = re.compile(r"^(tests/semantics/\w+\.py)::(\w+)(?:\[(.*)\])?$", re.MULTILINE)
_HEAD: Final = """# Kinds of messages, and what happens to them

This page is for people who combine features. It answers what a client gets, for each kind of message and each event,
and for two kinds together. Each cell is a test on three real nodes, asked over HTTP. `deploy/semantics.py` writes the
page from the names of the tests. `pytest tests/semantics` runs them in three minutes.

"""


class Cell(NamedTuple):
    """A test: its file, its function, and the words in its brackets."""

    file: str
    function: str
    words: str


def cells() -> list[Cell]:
    """Return all tests of the page, in their order."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-o", "addopts=", "-q", CELLS]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [Cell(*found) for found in _ID.findall(told.stdout)]


def sentences(file: str) -> dict[str, str]:
    """Return the docstring of each function of a file, on one line."""
    found = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    functions = [each for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {each.name: " ".join((ast.get_docstring(each) or "").split()) for each in functions}


def keys_of(file: str, name: str) -> list[str]:
    """Return the keys of a dict that stands in a file under this name."""
    for each in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.value, ast.Dict) and ast.unparse(each.target) == name:
            return [str(ast.literal_eval(key)) for key in each.value.keys if key is not None]
    raise KeyError(name)


def page() -> str:
    """Return the page."""
    found = cells()
    return _HEAD + "\n".join([*_events(found), "", *_lives(), "", *_pairs(found)]) + "\n"


def _events(found: list[Cell]) -> Iterator[str]:
    """The table of kinds and events, with what follows each event."""
    by_kind: dict[str, dict[str, Cell]] = {}
    for cell in found:
        if cell.file in (_BY_EVENT, _BY_RECONCILIATION) and cell.function.startswith("test_cell"):
            kind, _, event = cell.words.partition("-")
            event = event or "backup-and-restore"
            by_kind.setdefault(kind, {})[event] = cell
    events = list(next(iter(by_kind.values())))
    said = sentences(_BY_EVENT) | sentences(_BY_RECONCILIATION)
    yield "## Kind by event"
    yield ""
    yield "| event | what a client gets |"
    yield "|---|---|"
    for event in events:
        cell = next(iter(by_kind.values()))[event]
        own = said.get(f"_{event.replace('-', '_')}")
        yield f"| {event.replace('-', ' ')} | {own or said[cell.function]} |"
    yield ""
    yield f"The kinds are those of `{_KINDS}`. Each cell names its test in `{_BY_EVENT}`,"
    yield f"those of the reconciliation in `{_BY_RECONCILIATION}`."
    yield ""
    yield f"| kind | {' | '.join(event.replace('-', ' ') for event in events)} |"
    yield f"|---|{'---|' * len(events)}"
    for kind, cells in by_kind.items():
        names = [f"`{cell.function}[{cell.words}]`" for cell in (cells[event] for event in events)]
        yield f"| {kind} | {' | '.join(names)} |"


def _lives() -> Iterator[str]:
    """The table of what the reconciliation says of each life."""
    said = sentences(_LIVES)
    yield "## Kind by reconciliation"
    yield ""
    yield "Messages of each kind go through each of these lives. The files of the running cluster are exported. One"
    yield "Spark job judges them, with the receivers' log. Its report must say the same of all kinds. A message that"
    yield f"was extended is `rescheduled` too. The lives stand in `{_LIVES}`."
    yield ""
    yield "| life | what the report says |"
    yield "|---|---|"
    for life in keys_of(_LIVES, "TOLD"):
        yield f"| {life} | {said.get(f'_{life}') or said[life]} |"


def _pairs(found: list[Cell]) -> Iterator[str]:
    """The table of two kinds together."""
    by_test: dict[str, list[str]] = {}
    for cell in found:
        if cell.file == _BY_KIND:
            by_test.setdefault(cell.function, []).append(cell.words)
    said = sentences(_BY_KIND)
    yield "## Kind by kind"
    yield ""
    yield f"The tests stand in `{_BY_KIND}`."
    yield ""
    yield "| together | what a client gets | test | cells |"
    yield "|---|---|---|---|"
    for function, words in by_test.items():
        together = function.removeprefix("test_").replace("_", " ")
        shown = ", ".join(f"`{word}`" for word in words if word)
        yield f"| {together} | {said[function]} | `{function}` | {shown} |"


def main() -> int:
    """Rewrite the page, or check it."""
    written = page()
    if "--check" in sys.argv:
        return int(PAGE.read_text(encoding="utf-8") != written)
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
