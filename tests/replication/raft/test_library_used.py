"""What of pysyncobj executes, counted line by line in a cluster that elects, replicates and changes leaders."""

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pysyncobj

from tests.replication.sim_network import SimNetwork

LIBRARY = str(Path(pysyncobj.__file__).parent)
PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"

AT_WORK = {
    "__onMessageReceived",
    "__getEntries",
    "__deleteEntriesFrom",
    "__sendNextNodeIdx",
    "__setState",
    "__setCurrentTerm",
    "__onLeaderChanged",
    "__onBecomeLeader",
}
"""Functions of syncobj.py with more than one line that run after a node was made."""
HELPERS = {"node.py", "monotonic.py"}
"""Files of which one line at a time runs beside them: a node's id and how it compares, the clock's name."""


class Lines:
    """Counts, by (file, function), the lines of the library that are executed inside the block."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], set[int]] = defaultdict(set)

    def __enter__(self) -> "Lines":
        sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename.startswith(LIBRARY) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        if event == "line":
            code: CodeType = frame.f_code
            self.seen[Path(code.co_filename).name, code.co_name].add(frame.f_lineno)
        return self._line


def everything(network: SimNetwork) -> None:
    """Elections, entries, a leader cut off with entries that nobody else has, their truncation, a kill."""
    node = network.elect()
    network.fill(node, 50)
    network.run(1)
    network.isolate(node.id)
    for number in range(20):
        network.propose(node, f"lost{number}")
    network.run(3)
    other = network.elect()
    assert other is not node
    network.fill(other, 50)
    network.heal()
    network.run(3)
    network.kill(network.leader().id)
    network.elect()
    network.run(2)


def test_only_what_the_documents_name_of_the_library_runs(tmp_path: Path) -> None:
    """Votes, the log matching check, the no-op, and changes of term and state: in eight functions."""
    network = SimNetwork(tmp_path)
    network.elect()
    with Lines() as lines:
        everything(network)
    at_work = {name: len(seen) for (file, name), seen in lines.seen.items() if file == "syncobj.py" and len(seen) > 1}
    assert at_work.keys() == AT_WORK
    assert 80 <= sum(at_work.values()) <= 120, at_work
    assert {file for file, _ in lines.seen} - {"syncobj.py"} <= HELPERS


def test_the_page_names_what_runs() -> None:
    """Every one of these functions, in docs/architecture.md."""
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(AT_WORK) if f"`{name}`" not in page] == []
