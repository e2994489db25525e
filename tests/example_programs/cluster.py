"""What the tests of the programs share: a cluster of three nodes, a program as its own process, messages' states."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.connection import Connection
from tests.cli.run.test_dev import described, dev, free_range

END_S = 60
README = Path(__file__).parents[2] / "examples" / "README.md"
COMMAND = re.compile(r"^\.venv/bin/python -m examples\.(\w+)([^#\n]*)(# until Ctrl-C)?", re.MULTILINE)
LINE = re.compile(r"\d\d:\d\d:\d\d\.\d\d\dZ  \S.*")


@contextmanager
def three_nodes(factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """What `hourwheel dev` says of each of its three nodes."""
    with dev(factory.mktemp("nodes"), 3, free_range(3)) as process:
        yield described(process)
        process.send_signal(signal.SIGTERM)
        process.wait(END_S)


def urls_of(nodes: list[dict[str, Any]]) -> str:
    """The URLs of these nodes, with commas between."""
    return ",".join(node["http"] for node in nodes)


def told(directory: Path, urls: str, *args: str, stopped: bool = False) -> list[str]:
    """What `python -m examples.ARGS` prints, without times, once it ended with 0 in this directory.

    One that does not end of itself is `stopped` by Ctrl-C behind its first line.
    """
    command = [sys.executable, "-m", f"examples.{args[0]}", *args[1:]]
    environment = os.environ | {"HOURWHEEL_URL": urls}
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline() if stopped else ""
            if stopped:
                process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=END_S)
        finally:
            process.kill()
    lines = (first + rest).splitlines()
    assert (process.returncode, errors) == (0, ""), lines
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    return [line.partition("  ")[2] for line in lines]


def told_by_the_readme(directory: Path, urls: str, program: str) -> list[str]:
    """What the commands of examples/README.md print that run this program, one after the other."""
    found = [match.groups() for match in COMMAND.finditer(README.read_text(encoding="utf-8")) if match[1] == program]
    return [
        line
        for _, args, endless in found
        for line in told(directory, urls, program, *args.split(), stopped=endless is not None)
    ]


def message(urls: str, id: str) -> dict[str, Any]:
    """A message as any node shows it."""
    return Connection(urls).send("GET", f"/v1/messages/{id}")
