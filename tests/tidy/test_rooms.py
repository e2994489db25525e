"""Rooms: who may import whom, how many files stand in one, and that nothing goes round in a circle.

The table is tests/tidy/rooms.toml. Imports for types alone count too: they couple two files as much as others do.
"""

import ast
import tomllib
from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.tidy.sources import FILES, IMPORTED, NODES, PRODUCT, TREES, found_in, room

TABLE = tomllib.loads((Path(__file__).parent / "rooms.toml").read_text(encoding="utf-8"))
ROOMS: dict[str, list[str]] = TABLE["rooms"]
CROWDED: list[str] = TABLE["exceptions"]["crowded"]
CIRCLES: list[list[str]] = TABLE["exceptions"]["circles"]
MUTUAL: list[list[str]] = TABLE["exceptions"]["mutual"]
FILES_MAX = 15


def circles(imported: Mapping[str, Set[str]]) -> list[list[str]]:
    """The names that import each other by any way round, a sorted list for each circle (Tarjan's components)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in sorted(imported[name]):
            if other not in index:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in sorted(imported):
        if name not in index:
            visit(name)
    return sorted(found)


def corner(name: str) -> str:
    """The room of a file; of one that stands beside rooms, the file."""
    here = room(name)
    return name if any(other.startswith(f"{here}/") for other in ROOMS) else here


def may_import(here: str, name: str) -> bool:
    """Whether a file of this room may import this file."""
    there = room(name)
    allowed = ROOMS[here]
    return there == here or there in allowed or name in allowed or f"{there.split('/')[0]}/*" in allowed


def test_every_room_stands_in_the_table() -> None:
    """A folder with code is a room of the table, and a room of the table has code."""
    assert sorted(ROOMS) == sorted({room(name) for name in PRODUCT})


def test_a_room_imports_what_the_table_lets_it_import() -> None:
    """Of our own files; what others' packages a folder uses stands in test_tidy.py."""
    assert [
        (name, other) for name in PRODUCT for other in sorted(IMPORTED[name]) if not may_import(room(name), other)
    ] == []


def test_the_table_allows_nothing_that_is_not_used() -> None:
    """A row that no import needs would let one in that nobody meant."""
    used = {here: {other for name in PRODUCT if room(name) == here for other in IMPORTED[name]} for here in ROOMS}

    def needed(here: str, row: str) -> bool:
        if row.endswith("/*"):
            return any(name.startswith(row[:-1]) for name in used[here])
        return row in used[here] or any(room(name) == row for name in used[here])

    assert [(here, row) for here, rows in ROOMS.items() for row in rows if not needed(here, row)] == []


def test_no_circle_of_files_but_those_that_stand_there_still() -> None:
    """The list of circles is what there is, to the file: one that is opened leaves it."""
    assert circles(IMPORTED) == sorted(sorted(circle) for circle in CIRCLES)


def test_no_circle_of_rooms_but_those_that_stand_there_still() -> None:
    """Nor do two rooms hold each other, though no two of their files do. A file beside rooms stands for itself: the
    rooms may know it by name, as it may know them."""
    between: dict[str, set[str]] = {}
    for name in PRODUCT:
        here = corner(name)
        between.setdefault(here, set()).update(corner(other) for other in IMPORTED[name] if corner(other) != here)
    assert circles(between) == sorted(sorted(circle) for circle in MUTUAL)


def test_a_room_has_fifteen_files_at_most() -> None:
    """But for those that stand in the list still."""
    counts = {here: sum(room(name) == here and not name.endswith("__init__.py") for name in PRODUCT) for here in ROOMS}
    assert sorted(here for here, count in counts.items() if count > FILES_MAX) == sorted(CROWDED)


@pytest.mark.parametrize("here", sorted(set(ROOMS) - set(CROWDED)))
def test_a_room_says_what_it_is(here: str) -> None:
    """Its `__init__.py` has three to six lines: what it is, what comes in, what goes out."""
    name = f"{here}/__init__.py"
    said = ast.get_docstring(TREES[name]) or ""
    assert 3 <= len([line for line in said.splitlines() if line.strip()]) <= 6, FILES[name]


@pytest.mark.parametrize("here", sorted(ROOMS))
def test_a_room_runs_no_code_when_it_is_entered(here: str) -> None:
    """Its `__init__.py` is its sentence: what it imported for others would stand in no row of the table."""
    assert [type(node) for node in TREES[f"{here}/__init__.py"].body] == [ast.Expr]
    assert ast.get_docstring(TREES[f"{here}/__init__.py"])


LOADERS = {"importlib", "pkgutil", "runpy", "zipimport"}
LOADING = {"__import__", "import_module", "resolve_name", "run_module", "exec", "eval"}


def imports_by_a_name(node: ast.AST) -> bool:
    """Whether it is, or may be, an import of what a string names."""
    match node:
        case ast.Import(names=names):
            return any(each.name.split(".")[0] in LOADERS for each in names)
        case ast.ImportFrom(module=module, names=names):
            return str(module).split(".")[0] in LOADERS or (module == "sys" and any(n.name == "modules" for n in names))
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
            return True
        case ast.Name(id=word) | ast.Attribute(attr=word):
            return word in LOADING
    return False


def test_who_imports_by_a_name_that_is_made_at_run_time() -> None:
    """The table does not see it: a command by its name, and what the simulator takes the cost of."""
    found = [name for name in PRODUCT if any(map(imports_by_a_name, NODES[name]))]
    assert found == ["chaos/simulator/time/cost.py", "cli/main.py"]


@pytest.mark.parametrize(
    "line",
    [
        "import importlib.util",
        "import sys, importlib as il",
        "from importlib import import_module",
        "builtins.__import__('node.node')",
        "pkgutil.resolve_name('node.node:Node')",
        "from runpy import run_module",
        "sys.modules['node.node']",
        "from sys import modules",
        "exec('import node.group.group')",
    ],
)
def test_imports_by_a_name_are_seen(line: str) -> None:
    """In each way that a reviewer got past this guard."""
    assert any(map(imports_by_a_name, ast.walk(ast.parse(line))))
    assert not any(map(imports_by_a_name, ast.walk(ast.parse("import sys\nfrom node.node import Node\nsys.exit(1)"))))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("import node", "node/__init__.py"),
        ("import node.group.group as here", "node/group/group.py"),
        ("from node import process", "node/process.py"),
        ("from node import pull", "node/pull/__init__.py"),
        ("from node.node import Node", "node/node.py"),
    ],
)
def test_imports_are_seen(line: str, path: str) -> None:
    """In each way that they are written, of a file and of a folder."""
    assert path in found_in(ast.walk(ast.parse(line)))


@pytest.mark.parametrize("line", ["from . import server", "from .server import Node", "from .. import api"])
def test_relative_imports_are_refused(line: str) -> None:
    """The table would pass them over."""
    with pytest.raises(AssertionError, match="absolute"):
        found_in(ast.walk(ast.parse(line)))


def test_circles_are_found() -> None:
    """The search itself: against graphlib's on graphs with a circle and without."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "d"}}) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": set()}) == [["a", "b", "c"]]
    with pytest.raises(CycleError):
        TopologicalSorter({"b": {"c"}, "c": {"b"}}).prepare()
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
