"""The systemd unit agrees with the program: how it starts, what it says, how long it takes, when it gives up."""

import re
from pathlib import Path

from api.http.server import GRACE_S
from cli.main import COMMANDS
from node.cluster.drain import LEAVE_S
from node.runtime.exit_code import ExitCode

UNIT = (Path(__file__).parents[2] / "deploy" / "hourwheel.service").read_text(encoding="utf-8")


def value(name: str) -> str:
    """What a directive says; it stands there once."""
    found = re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)
    assert len(found) == 1, name
    return str(found[0])


def test_it_starts_a_node_that_speaks() -> None:
    """`serve` tells when it is ready and that its loop turns; without both the unit would be killed."""
    program, command, *_ = value("ExecStart").split()
    assert program.endswith("/hourwheel")
    assert command == "serve"
    assert command in COMMANDS
    assert (value("Type"), value("NotifyAccess")) == ("notify", "main")
    assert 10 <= int(value("WatchdogSec")) <= 120


def test_it_waits_for_an_orderly_end() -> None:
    """Longer than leaving and the last requests may take."""
    assert int(value("TimeoutStopSec")) > LEAVE_S + GRACE_S


def test_what_a_restart_would_not_mend_stays_down() -> None:
    """A wrong configuration, a damaged directory, a node that was removed; an address that is taken may come free."""
    codes = {int(code) for code in value("RestartPreventExitStatus").split()}
    assert codes == {ExitCode.CONFIG, ExitCode.DATA, ExitCode.REMOVED}
    assert value("Restart") == "on-failure"
