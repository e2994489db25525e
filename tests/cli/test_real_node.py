"""The daily path as a user types it, against a real node: what the scripted node cannot show is that both sides mean
the same contract.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import main
from node.runtime.exit_code import ExitCode
from tests.cli.run.test_dev import described, dev, free_range
from tests.cli.run.test_listen import SECRET, ended, listening

Say = Callable[..., Any]


@pytest.fixture(scope="module")
def say(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Say]:
    """Calls `hourwheel ARGS -o json` on a node of its own; the document, once the exit code is as expected."""
    with dev(tmp_path_factory.mktemp("real"), 1, free_range(1)) as process:
        env = {"HOURWHEEL_URL": described(process)[0]["http"]}

        def run(*args: str, code: ExitCode = ExitCode.OK) -> Any:
            result = CliRunner().invoke(main, [*args, "-o", "json"], env=env)
            assert result.exit_code == code, result.output
            return json.loads(result.stdout if code == ExitCode.OK else result.stderr.splitlines()[-1])

        deadline_s = time.monotonic() + 30
        while (
            "not-supported-yet" in CliRunner().invoke(main, ["shift", "--by", "1s", "x", "--dry-run"], env=env).stderr
        ):
            assert time.monotonic() < deadline_s, "the level of a new cluster rises by itself"
        yield run
        process.send_signal(signal.SIGTERM)
        process.wait(40)


def pulled(say: Say, topic: str, *args: str) -> list[dict[str, Any]]:
    """What comes within 5 s."""
    messages: list[dict[str, Any]] = say("pull", topic, "--wait", "5", *args)["messages"]
    return messages


def test_nack_until_dead_then_redriven(say: Say) -> None:
    """Given back twice with two attempts allowed: dead, listed with its reason, redriven, and acked at last."""
    say("topic", "put", "orders", "--retry-max-attempts", "2", "--retry-min-backoff", "20ms", "--dead-letter", "grave")
    message_id = say("schedule", "orders", "7", "--tag", "eu")["id"]
    say("schedule", "orders", "8", "--tag", "us", "--delay-level", "18")
    (first,) = pulled(say, "orders", "--tags", "eu || asia")
    assert (first["id"], first["attempt"], first["body"]) == (message_id, 1, 7)
    assert say("extend", "orders", first["receipt"], "--lease", "1m")["results"][0]["result"] == "extended"
    assert say("nack", "orders", first["receipt"], "--delay", "10ms")["results"][0]["result"] == "nacked"
    (second,) = pulled(say, "orders")
    assert (second["id"], second["attempt"]) == (message_id, 2)
    assert say("ack", "orders", "nonsense", code=ExitCode.CONFLICT)["code"] == "conflict"
    say("nack", "orders", second["receipt"])
    (dead,) = say("dead", "orders", "--tag", "eu", "--all")["items"]
    assert (dead["id"], dead["reason"], dead["attempts"]) == (message_id, "nacked", 2)
    assert say("dead", "orders", "--tag", "us")["items"] == []
    (copy,) = pulled(say, "grave", "--ack")
    assert copy["body"] == 7
    assert say("redrive", "orders", "--dry-run") == {"matched": 1}
    assert say("redrive", "orders", "--yes")["changed"] == 1
    (third,) = pulled(say, "orders", "--ack")
    assert (third["id"], third["attempt"]) == (message_id, 3)
    assert say("get", message_id)["state"] == "delivered"
    assert say("dead", "orders")["items"] == []


def test_reschedule_and_cancel_with_revisions(say: Say) -> None:
    """A revision that is no longer the newest is refused by both."""
    message_id = say("schedule", "later", "1", "--delay", "1h")["id"]
    assert say("reschedule", message_id, "--delay", "2h", "--if-match", "1")["revision"] == 2
    assert say("cancel", message_id, "--if-match", "1", code=ExitCode.CONFLICT)["code"] == "revision-mismatch"
    assert say("cancel", message_id, "--if-match", "2")["prior"] == "none"
    problem = say("reschedule", message_id, "--delay", "1h", code=ExitCode.CONFLICT)
    assert problem["code"] == "already-settled"


def test_pushed_signed_and_received(say: Say, tmp_path: Path) -> None:
    """`dev` may push to this machine; `listen` verifies what it gets; refused, a message dies of the status."""
    log = tmp_path / "log"
    with listening("--secret", SECRET, "--log", str(log)) as (process, urls):
        say("topic", "put", "hooks", "--mode", "push", "--target", f"{urls[0]}/in", "--secret", SECRET)
        message_id = say("schedule", "hooks", '{"a": 1}', "--delay", "50ms")["id"]
        wait_state(say, message_id, "delivered")
        output, _ = ended(process, signal.SIGTERM)
    (line,) = [json.loads(text) for text in log.read_text().splitlines()]
    assert (line["id"], line["path"], line["attempt"], line["signature"]) == (message_id, "/in", 1, "ok")
    assert line["received_ms"] >= datetime.fromisoformat(line["due"]).timestamp() * 1000
    assert '{"a": 1}' in output
    with listening("--status", "503") as (process, urls):
        say("topic", "patch", "hooks", "--target", f"{urls[0]}/in", "--retry-max-attempts", "1")
        message_id = say("schedule", "hooks", "2")["id"]
        wait_state(say, message_id, "dead")
    (dead,) = say("dead", "hooks")["items"]
    assert (dead["id"], dead["reason"]) == (message_id, "http-503")


def wait_state(say: Say, message_id: str, state: str) -> None:
    """Returns when the message is in this state, within 10 s."""
    end_s = time.monotonic() + 10
    while (found := say("get", message_id)["state"]) != state:
        assert time.monotonic() < end_s, found


def test_topics(say: Say) -> None:
    """Put, patched, listed, shown; a write-only secret; an address that may not be pushed to."""
    say("topic", "put", "shown", "--mode", "push", "--target", "http://127.0.0.1:9/", "--secret", SECRET)
    say("topic", "patch", "shown", "--target-timeout", "2s", "--paused")
    shown = say("topic", "get", "shown")
    assert (shown["paused"], shown["target"]["timeout"], shown["target"]["secret_set"]) == (True, "2s", True)
    assert SECRET not in json.dumps(shown)
    assert "shown" in [item["topic"] for item in say("topic", "list")["items"]]
    problem = say("topic", "patch", "shown", "--target", "http://10.0.0.1/", code=ExitCode.REFUSED)
    assert problem["errors"][0]["pointer"] == "/target/url"
    assert say("topic", "get", "nowhere", code=ExitCode.NOT_FOUND)["code"] == "unknown-topic"


def test_transfer_of_the_only_node(say: Say) -> None:
    """There is nobody else, by name or at all."""
    assert say("cluster", "transfer", "--to", "n9", code=ExitCode.NOT_FOUND)["code"] == "unknown-node"


def test_many_are_cancelled(say: Say) -> None:
    """By tag and window; what does not match stays."""
    say("cluster", "upgrade")  # a new cluster rises to the newest level by itself, in a moment
    for tag in ("eu", "us", "eu"):
        say("schedule", "flood", "1", "--delay", "2h", "--tag", tag)
    assert say("cancel", "--topic", "flood", "--tag", "eu", "--dry-run") == {"matched": 2}
    ended = say("cancel", "--topic", "flood", "--from", "+1h", "--to", "+3h", "--tag", "eu", "--yes")
    assert (ended["state"], ended["changed"], ended["prior"]["none"]) == ("done", 2, 2)
    assert say("operation", ended["id"]) == say("operation")["items"][0] == ended
    rest = (
        "cancel",
        "--all-topics",
        "--from",
        "+1h",
        "--to",
        "+3h",
    )  # other tests left messages
    matched = say(*rest, "--dry-run")["matched"]
    assert say(*rest, "--yes")["changed"] == matched >= 1
    assert say("operation", "op-0", code=ExitCode.NOT_FOUND)["code"] == "unknown-operation"
