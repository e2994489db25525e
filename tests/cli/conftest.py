"""What the tests of the command share: a scripted node and a way to call the command on it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from tests.cli.scripted_node import ScriptedNode

Call = Callable[..., Result]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands remember members; no test finds those of another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hourwheel" / "members.json"


@pytest.fixture
def node() -> Iterator[ScriptedNode]:
    """A node that says what the test tells it to."""
    with ScriptedNode() as scripted:
        yield scripted


@pytest.fixture
def call(node: ScriptedNode) -> Call:
    """Calls `hourwheel ARGS` with the scripted node as HOURWHEEL_URL; no exception but SystemExit may escape."""

    def invoke(*args: str, stdin: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(main, args, input=stdin, env={"HOURWHEEL_URL": node.url})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke
