"""Tables on a terminal: as wide as their content, but for the bodies."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from tests.cli.scripted_node import ScriptedNode

ID, RECEIPT = "2000F767000000005W4K211BX4", "r" * 70
MESSAGE = {"id": ID, "due": "2026-11-21T02:10:20.125Z", "attempt": 1, "body": {"text": "x" * 500}, "receipt": RECEIPT}


def on_terminal(columns: int, *args: str) -> list[str]:
    """The lines that the command prints on a terminal so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen([sys.executable, "-m", "cli", *args], stdout=theirs, env=environment)
    os.close(theirs)
    told = b""
    try:
        while piece := os.read(ours, 65_536):
            told += piece
    except OSError:  # how the end of a terminal is told
        pass
    os.close(ours)
    assert process.wait(30) == 0
    return told.decode().splitlines()


@pytest.mark.parametrize("columns", [40, 240])
def test_only_bodies_are_cut(node: ScriptedNode, columns: int) -> None:
    """An id that is cut cannot be copied: on a narrow terminal a row takes several lines."""
    node.say(200, {"messages": [MESSAGE]})
    lines = on_terminal(columns, "pull", "t", "--url", node.url)
    assert ID in lines[1]
    assert lines[1].endswith(RECEIPT)
    body = lines[1][lines[1].index('{"text"') : lines[1].index(RECEIPT)].rstrip()
    assert body.endswith("...")
    assert len(body) == 20 if columns == 40 else len(lines[1]) == columns


def test_body_of_one_message_is_cut_to_the_line(node: ScriptedNode) -> None:
    """Elsewhere than on a terminal it is whole."""
    node.say(200, MESSAGE)
    node.say(200, MESSAGE)
    (line,) = [line for line in on_terminal(80, "get", ID, "--url", node.url) if line.startswith("body")]
    assert (len(line), line[-3:]) == (80, "...")
    command = [sys.executable, "-m", "cli", "get", ID, "--url", node.url]
    assert "x" * 500 in subprocess.run(command, capture_output=True, text=True, check=True).stdout
