"""A command finds a node: by several URLs, and by the members that an earlier command saw."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos.cluster.ports import free_ports
from cli.connection import Connection
from cli.known_members import CLUSTERS_MAX, FRESH_S, KnownMembers, cache_file
from cli.main import main
from hourwheel.core.addresses import parse_addresses
from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.run.test_dev import described, dev, free_range
from tests.cli.scripted_node import ScriptedNode

MESSAGE = {"id": "0A", "state": "scheduled"}
BY_N1 = {"Hourwheel-Node": "n1", "Hourwheel-Term": "4"}
DRAINING = {"code": "draining", "detail": "ask another"}


@pytest.fixture
def down() -> str:
    """The URL of a node that is down."""
    return f"http://127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture
def other() -> Iterator[ScriptedNode]:
    """A second node."""
    with ScriptedNode() as scripted:
        yield scripted


def page(*urls: str, cluster_id: str = "c1") -> dict[str, Any]:
    """What GET /v1/cluster says of a cluster with nodes at these addresses."""
    rows = [{"id": f"n{place + 1}", "http": url.removeprefix("http://")} for place, url in enumerate(urls)]
    return {"cluster_id": cluster_id, "leader": "n1", "term": 4, "nodes": rows}


@pytest.mark.parametrize("form", ["commas", "repeated", "variable"])
def test_the_next_one_is_asked(node: ScriptedNode, down: str, form: str) -> None:
    """Where the first cannot be reached, whatever is asked: nothing was sent."""
    node.say(201, MESSAGE)
    urls = {"commas": ["--url", f"{down},{node.url}"], "repeated": ["--url", down, "--url", node.url], "variable": []}
    args, variable = ["schedule", "t", "1", *urls[form]], f"{down},{node.url}"
    result = CliRunner().invoke(main, args, env={"HOURWHEEL_URL": variable if form == "variable" else None})
    assert result.exit_code == ExitCode.OK, result.output
    assert len(node.requests) == 1


def test_all_that_were_tried_are_named(call: Call, down: str) -> None:
    """With what is wrong with each."""
    more = [f"http://127.0.0.1:{port}" for port in free_ports(2)]
    result = call("get", "0A", "--url", ",".join([down, *more]))
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "cannot reach any of 3 nodes" in result.stderr
    assert all(f"cannot reach {url}: connection refused" in result.stderr for url in [down, *more])


@pytest.mark.parametrize("urls", ["http://a:1,ftp://b:2", "http://a:1,", "http://a:1,b:x"])
def test_an_address_that_is_none(call: Call, urls: str) -> None:
    """Nothing is sent to the others."""
    result = call("get", "0A", "--url", urls)
    assert result.exit_code == ExitCode.USAGE
    assert "address" in result.stderr


def test_a_change_without_an_answer_goes_to_no_other(node: ScriptedNode, other: ScriptedNode, down: str) -> None:
    """It may have happened. A read goes on; the failure names all."""
    both = Connection(f"{down},{node.url},{other.url}")
    node.hang_up()
    with pytest.raises(Exception, match="may or may not have happened") as failed:
        both.call("POST", "/v1/messages", {})
    assert down in str(failed.value)
    assert node.url in str(failed.value)
    node.hang_up()
    other.say(200, MESSAGE)
    assert Connection(f"{node.url},{other.url}").call("GET", "/v1/messages/0A").document == MESSAGE
    assert len(other.requests) == 1


def test_a_refusal_is_one_everywhere(node: ScriptedNode, other: ScriptedNode, call: Call) -> None:
    """No other node is asked; one that drains is no refusal."""
    urls = f"{node.url},{other.url}"
    node.say(404, {"code": "unknown-message", "detail": "none"})
    assert call("get", "0A", "--url", urls).exit_code == ExitCode.NOT_FOUND
    node.say(503, {"code": "no-leader", "detail": "later"}, {"Retry-After": "1"})
    assert call("get", "0A", "--url", urls).exit_code == ExitCode.UNAVAILABLE
    node.say(429, {"code": "busy", "detail": "later"}, {"Retry-After": "1"})
    assert call("get", "0A", "--url", urls).exit_code == ExitCode.UNAVAILABLE
    assert other.requests == []
    node.say(503, DRAINING)
    other.say(201, MESSAGE)
    assert call("schedule", "t", "1", "--url", urls).exit_code == ExitCode.OK


def test_one_that_drains_and_none_beside_it(node: ScriptedNode, call: Call, down: str) -> None:
    """The answer counts, and the others are named."""
    node.say(503, DRAINING)
    result = call("schedule", "t", "1", "--url", f"{node.url},{down}")
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert "draining (HTTP 503): ask another" in result.stderr
    assert f"cannot reach {down}" in result.stderr
    assert f"the answer of {node.url}" in result.stderr


def test_what_one_node_is_asked_about_itself(node: ScriptedNode, call: Call, down: str) -> None:
    """To drain another one, or to read its copy, would be another command."""
    for args in (["node", "drain"], ["cluster", "snapshot"], ["get", "0A", "--local"]):
        assert call(*args, "--url", f"{down},{node.url}").exit_code == ExitCode.UNREACHABLE
    assert node.requests == []


def test_a_node_that_failed_comes_last_in_the_next_request(node: ScriptedNode, other: ScriptedNode) -> None:
    """Of one connection, so that pages do not wait for it each time."""
    connection = Connection(f"{node.url},{other.url}")
    node.hang_up()
    for _ in range(2):
        other.say(200, MESSAGE)
        connection.call("GET", "/v1/messages/0A")
    assert (len(node.requests), len(other.requests)) == (1, 2)


# -- the members that were seen


def seen(node: ScriptedNode, other: ScriptedNode, call: Call, down: str) -> Result:
    """A command at `down`, after one that saw `down` and `other` as members at `node`, which then answers no more."""
    node.say(200, MESSAGE, BY_N1)
    node.say(200, page(down, other.url))
    assert call("get", "0A").exit_code == ExitCode.OK
    assert [path for _, path, _ in node.requests] == ["/v1/messages/0A", "/v1/cluster"]
    node.hang_up()
    return call("get", "0B", "--url", down)


def test_the_members_are_asked_when_the_given_node_is_down(
    node: ScriptedNode, other: ScriptedNode, call: Call, down: str
) -> None:
    """They were seen beside the answer to an earlier command."""
    other.say(200, page(down, other.url))
    other.say(200, MESSAGE)
    result = seen(node, other, call, down)
    assert result.exit_code == ExitCode.OK, result.output
    assert [path for _, path, _ in other.requests] == ["/v1/cluster", "/v1/messages/0B"]


def test_another_cluster_at_a_remembered_address_is_not_asked(
    node: ScriptedNode, other: ScriptedNode, call: Call, down: str
) -> None:
    """A port of yesterday may be another's today."""
    other.say(200, page(other.url, cluster_id="c2"))
    result = seen(node, other, call, down)
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "another cluster listens there now" in result.stderr
    assert all(url in result.stderr for url in (down, node.url, other.url))
    assert len(other.requests) == 1


def test_members_are_looked_for_once_in_a_while(node: ScriptedNode, call: Call, cache: Path) -> None:
    """And `cluster status` needs no look."""
    node.say(200, page(node.url))
    assert call("cluster", "status", "--local").exit_code == ExitCode.OK
    node.say(200, MESSAGE, BY_N1)
    assert call("get", "0A").exit_code == ExitCode.OK
    assert len(node.requests) == 2
    entries = json.loads(cache.read_text())
    entries["c1"]["seen_s"] -= FRESH_S + 1
    cache.write_text(json.dumps(entries))
    node.say(200, MESSAGE, BY_N1)
    node.hang_up()  # a look that fails is no failure
    assert call("get", "0A").exit_code == ExitCode.OK
    assert len(node.requests) == 4


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"c1": 7}', b'{"c1": {"seen_s": 1, "given": 3}}', b"\xff"])
def test_a_file_that_cannot_be_read(node: ScriptedNode, call: Call, cache: Path, content: bytes) -> None:
    """It is passed over, and written anew."""
    cache.parent.mkdir(parents=True)
    cache.write_bytes(content)
    node.say(200, MESSAGE, BY_N1)
    node.say(200, page(node.url))
    assert call("get", "0A").exit_code == ExitCode.OK
    assert json.loads(cache.read_text())["c1"]["members"] == [node.url]
    assert list(cache.parent.iterdir()) == [cache]


def test_a_file_that_cannot_be_written(node: ScriptedNode, call: Call, cache: Path) -> None:
    """No command fails for it, nor says a word."""
    cache.parent.parent.touch()
    node.say(200, MESSAGE, BY_N1)
    node.say(200, page(node.url))
    result = call("get", "0A")
    assert (result.exit_code, result.stderr) == (ExitCode.OK, "")


def test_an_address_belongs_to_the_cluster_seen_last(tmp_path: Path) -> None:
    """And the file does not grow for ever."""
    known = KnownMembers(tmp_path / "members.json")
    a, b, c = parse_addresses("a:1,b:1,c:1")
    known.keep("old", [a], [a, b], 1.0)
    known.keep("new", [b], [b, c], 2.0)
    assert known.find([a]) is None
    assert known.find([c, a]) == ("new", [b, c])
    for number in range(CLUSTERS_MAX):
        known.keep(f"c{number}", parse_addresses(f"x{number}:1"), [], 3.0 + number)
    assert known.find([b]) is None
    assert known.find(parse_addresses("x0:1")) == ("c0", list(parse_addresses("x0:1")))


def test_nothing_is_remembered_outside_a_command(node: ScriptedNode, cache: Path) -> None:
    """Tests and tools that use a connection leave no trace."""
    node.say(200, page(node.url), BY_N1)
    Connection(node.url).call("GET", "/v1/cluster")
    assert not cache.exists()


# -- real nodes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple["subprocess.Popen[str]", list[dict[str, Any]]]]:
    """Three nodes, of which a test kills one."""
    with dev(tmp_path_factory.mktemp("several"), 3, free_range(3)) as process:
        yield process, described(process)
        process.send_signal(signal.SIGTERM)
        process.wait(40)


def test_a_message_is_found_while_the_given_node_is_down(
    cluster: tuple["subprocess.Popen[str]", list[dict[str, Any]]],
) -> None:
    """By the URLs of others, and by the members that an earlier command saw; of a leader that died too."""
    process, nodes = cluster

    def said(*args: str, url: str) -> Result:
        return CliRunner().invoke(main, [*args, "-o", "json"], env={"HOURWHEEL_URL": url})

    first = said("schedule", "t", "1", "--delay", "1h", url=nodes[0]["http"])
    assert first.exit_code == ExitCode.OK, first.output
    message_id = json.loads(first.stdout)["id"]
    os.kill(nodes[0]["pid"], signal.SIGKILL)
    assert process.stderr is not None
    assert "n1" in process.stderr.readline()
    for url in (nodes[0]["http"], f"{nodes[0]['http']},{nodes[1]['http']}"):
        end_s = time.monotonic() + 20
        while (found := said("get", message_id, url=url)).exit_code == ExitCode.UNAVAILABLE:  # no leader for a moment
            assert time.monotonic() < end_s, found.output
        assert found.exit_code == ExitCode.OK, found.output
        assert json.loads(found.stdout)["id"] == message_id


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service user's home may name a directory that must not come to be."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert cache_file() is None
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_file() == tmp_path / ".cache" / "hourwheel" / "members.json"
