"""What the tests of the command share: a scripted node and a way to call the command on it."""

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from tests.cli.scripted_node import ScriptedNode

Call = Callable[..., Result]


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
