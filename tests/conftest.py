"""Shared pytest options, the profiles of property tests, and what may run without real nodes."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.local.local_nodes import this_build
from tests.examples import register_profiles
from tests.held import Logs, at_pace, bound_of, measured, worst
from tests.pace import slowness

register_profiles()

#: An import of aiohttp reads the machine's certificates: 70 ms of processor time in each of hundreds of processes. No
#: test connects to a server that needs them.
os.environ.setdefault("SSL_CERT_FILE", os.devnull)

#: Processes that tests start find `hourwheel` too; pytest's own path is not theirs.
os.environ["PYTHONPATH"] = this_build()["PYTHONPATH"]

#: A Java of a test lives for seconds: the second compiler costs it more processor time than it gains.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

#: Where real nodes and processes come from: a file that takes something from there is not for `make test-fast`.
REAL = {
    "chaos.cluster.cluster",
    "chaos.live.run",
    "tests.bench.test_run",
    "tests.example_programs.cluster",
    "tests.node.place",
    "tests.node.pushing",
    "tests.node.restarting",
    "tests.node.single_node",
    "tests.node.skewed_nodes",
    "tests.node.three_nodes",
}

_spent: Counter[str] = Counter()
_logs = Logs()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--golden` rewrites golden files instead of comparing with them; `--cpu` says what each file costs. `--border` is
    what stands between the parts of nodes (tests/node/conftest.py)."""
    parser.addoption("--border", choices=("half", "direct", "framed"), default="half", help="calls, or the codec")
    parser.addoption("--golden", action="store_true", help="rewrite golden files")
    parser.addoption("--cpu", action="store_true", help="processor seconds of each test file, its processes' too")


def _is_real(item: pytest.Item) -> bool:
    """Whether the test's file starts nodes or processes, or the test asks for a Spark session."""
    names = vars(getattr(item, "module", None) or object).values()
    taken = any(value is subprocess or getattr(value, "__module__", None) in REAL for value in names)
    return taken or "spark" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run real nodes or processes."""
    for item in items:
        if _is_real(item):
            item.add_marker(pytest.mark.real)


@pytest.fixture(autouse=True, scope="module")
def directories_before(tmp_path_factory: pytest.TempPathFactory) -> set[Path]:
    """The directories that stood here before the file's first test: nodes of other tests lie there."""
    return set(tmp_path_factory.getbasetemp().iterdir())


@pytest.fixture(autouse=True)
def loop_is_not_held(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, directories_before: set[Path]
) -> Iterator[None]:
    """Fail a test whose nodes held their loop for longer than tests/held.py allows."""
    if request.node.get_closest_marker("real") is None:
        yield
        return
    with measured() as steps:
        yield
    logged = _logs.steps(sorted(set(tmp_path_factory.getbasetemp().iterdir()) - directories_before))
    steps += at_pace(logged, slowness() if logged else 1.0)
    assert not (said := worst(steps, bound_of(request))), said


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Add up the processor time that the test used. Other work of the machine adds nothing to it."""
    before = os.times()
    result = yield
    after = os.times()
    _spent[item.nodeid.partition("::")[0]] += sum(after[:4]) - sum(before[:4])  # type: ignore[assignment]
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table of `--cpu`, the dearest first."""
    if config.getoption("--cpu"):
        terminalreporter.section(f"{sum(_spent.values()):.1f} processor seconds")
        for name, seconds in _spent.most_common():
            terminalreporter.line(f"{seconds:8.2f} {name}")
