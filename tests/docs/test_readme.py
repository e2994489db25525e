"""README.md: its requests and its Python program are run against three real nodes, as a newcomer runs them."""

import asyncio
import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page import send
from tests.example_programs.cluster import three_nodes

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
#: The ports of the page are those that `hourwheel dev` takes by itself.
FIRST_PORT = 7400
PORTS = re.compile(r"localhost:(\d+)")


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The HTTP addresses of three nodes."""
    with three_nodes(tmp_path_factory) as nodes:
        yield [node["http"].removeprefix("http://") for node in nodes]


def section(title: str) -> str:
    """The text below a heading."""
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def at(addresses: list[str], text: str) -> str:
    """The text with the addresses of these nodes in place of the page's."""
    return PORTS.sub(lambda found: addresses[int(found[1]) - FIRST_PORT], text)


def ask(command: str) -> tuple[int, str]:
    """The status and the body of a command's answer."""
    answer = asyncio.run(send(command))
    return answer.status, answer.body.decode()


def test_in_20_seconds(addresses: list[str]) -> None:
    """Each answer has the members that the page shows, and a value that is used again is that of the answer."""
    lines = [line for line in section("In 20 seconds").splitlines() if line.startswith(("$ curl", "{"))]
    assert len(lines) == 6
    names: dict[str, str] = {}
    for command, shown in zip(lines[::2], lines[1::2], strict=True):
        for name, real in names.items():
            command = command.replace(name, real)
        status, body = ask(at(addresses, command.removeprefix("$ ")))
        assert status in (200, 201), body
        assert [member for member in re.findall(r'"(\w+)":', shown) if f'"{member}":' not in body] == []
        receipts = re.findall(r'"receipt":"([^"]+)"', shown), re.findall(r'"receipt":"([^"]+)"', body)
        names |= dict(zip(*receipts, strict=True))
    assert '"result":"acked"' in body


def test_using_it(addresses: list[str]) -> None:
    """The three requests; the second names the message of the first."""
    scheduling, cancelling, putting = re.findall(r"^curl .*$", section("Using it"), re.MULTILINE)
    status, body = ask(at(addresses, scheduling))
    assert status == 201, body
    status, body = ask(at(addresses, cancelling).replace("THE-ID-FROM-THAT-ANSWER", json.loads(body)["id"]))
    assert (status, json.loads(body)["attempts_made"]) == (200, 0)
    status, body = ask(at(addresses, putting))
    assert (status, json.loads(body)["mode"]) == (200, "push")


def test_the_python_program(addresses: list[str]) -> None:
    """It schedules a message, pulls it when it is due, and acks it."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", section("Using it"), re.DOTALL | re.MULTILINE)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(at(addresses, program), "README.md", "exec"), {})
    assert said.getvalue() == "{'id': 7}\n"
