"""Every Python file of the project, its syntax tree, and which of our files it imports."""

import ast
from collections.abc import Iterable

from tests.tidy.tracked import ROOT, tracked

OURS = ("api", "bench", "chaos", "cli", "client", "ledger", "node", "reconcile", "replication", "storage")
#: Programs for users to read and to copy, which no distribution has.
UNSHIPPED = ("examples",)
#: Packages that do not stand at the root -> their folder.
ELSEWHERE = {"hourwheel": "client/hourwheel"}

FILES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in tracked("*.py")}
TREES = {name: ast.parse(text) for name, text in FILES.items()}
NODES = {name: list(ast.walk(tree)) for name, tree in TREES.items()}
NAMES = sorted(FILES)


def folder(name: str) -> str:
    """The top-level folder of a file."""
    return name.split("/")[0]


def room(name: str) -> str:
    """The folder that a file stands in: its room."""
    return name.rpartition("/")[0]


def files_imported(name: str) -> set[str]:
    """The files of ours that a file imports, wherever in it, for types alone too; of a package its `__init__.py`."""
    return found_in(NODES[name]) - {name}


def found_in(nodes: Iterable[ast.AST]) -> set[str]:
    """The files of ours that these nodes import."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= set().union(*(_files(alias.name) for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute: a name says where a file stands"
            for alias in node.names:
                found |= _files(f"{node.module}.{alias.name}") or _files(str(node.module))
    return found


def _files(module: str) -> set[str]:
    first, dot, rest = module.partition(".")
    path = ELSEWHERE.get(first, first) + (dot + rest).replace(".", "/")
    return {f"{path}.py", f"{path}/__init__.py"} & FILES.keys()


PRODUCT = [name for name in NAMES if folder(name) in (*OURS, *UNSHIPPED)]
IMPORTED = {name: files_imported(name) for name in PRODUCT}
