"""No test sleeps: a fixed wait is too short on a busy machine, and too long on every other.

What has to come is waited for (tests/waiting.py); where only time has to pass there is virtual time
(tests/virtual_time.py). What is left is here by name. The list may only shrink.
"""

import ast

from tests.tidy.sources import TREES
from tests.tidy.test_tidy import dotted

HOMES = ("tests/waiting.py", "tests/virtual_time.py")

#: File -> what sleeps there, and why it must: each is a part that the test plays, not a wait of the test.
PARTS = {
    "tests/api/http/test_connection.py": ["a client that drips its header"],
    "tests/chaos/simulator/time/test_loop.py": ["asyncio.sleep itself, on virtual time"],
    "tests/node/push_wire/test_client_bad.py": [
        "a receiver that drips its header",
        "a receiver that drips its body",
        "a process that stands still",
    ],
    "tests/node/push_wire/test_deadlines.py": ["a process that stands still"],
    "tests/node/runtime/test_watchdog.py": [
        "a call that holds the loop and does not work",
        "a process that stands still",
        "processors that others hold",
    ],
    "tests/node/upkeep/test_snapshot.py": ["the pace of a load that pours in beside the test"],
}


def sleeps(tree: ast.AST) -> list[int]:
    """The lines on which time is let pass; sleep(0) is only a turn of the loop."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    sleeping = [call for call in calls if dotted(call.func) in ("asyncio.sleep", "time.sleep", "sleep") and call.args]
    return [call.lineno for call in sleeping if ast.unparse(call.args[0]) != "0"]


def test_no_test_sleeps() -> None:
    """Beside the parts named above."""
    found = {name: sleeps(tree) for name, tree in TREES.items() if name.startswith("tests/") and name not in HOMES}
    for name, lines in found.items():
        known = len(PARTS.get(name, []))
        assert len(lines) <= known, f"{name} sleeps on lines {lines}: wait for what has to come (tests/waiting.py)"
        assert len(lines) >= known, f"{name} sleeps less than it did: shorten its list here"
    assert PARTS.keys() <= found.keys()


def test_a_sleep_is_seen() -> None:
    """The control: with a constant, a variable, of either module; a turn of the loop is none."""
    program = "asyncio.sleep(0)\nasyncio.sleep(0.1)\ntime.sleep(x)\nsleep(1)\nasyncio.sleep(0, 1)\n"
    assert sleeps(ast.parse(program)) == [2, 3, 4]
