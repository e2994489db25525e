"""Files and test functions that a page of docs names."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def named_in(page: str) -> list[str]:
    """Those in this text, as `folder/file.py` or `folder/file.py::test_function`."""
    return sorted(set(re.findall(r"`([a-z_]+/[\w/]+\.py(?:::\w+)?)`", page)))


def is_there(name: str) -> bool:
    """Whether the file exists, and has the function."""
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return not function or function in defined
