"""What producers send again and what they call unknown: the contract's line between nothing done and not known."""

import asyncio
from pathlib import Path

import pytest

from chaos.history.event import Answered, Offered
from chaos.history.history import History
from chaos.load.client import of_line
from chaos.load.producer import Producer
from chaos.plan.load_plan import Plan
from cli.local.local_nodes import LocalNode
from tests.cli.scripted_node import ScriptedNode

DUE = "2026-11-21T02:10:20.125Z"


def offered(script: ScriptedNode, *, keyed: bool, batch: int = 1) -> list[Answered]:
    """Outcomes of one request of `batch` messages to the scripted node."""
    node = LocalNode("n1", int(script.url.rpartition(":")[2]), 0, Path())
    plan = Plan(rate=1_000, duration_s=batch / 1_000, batch=batch, keyed_share=float(keyed), retry_s=5, request_s=5)
    history = History()
    asyncio.run(Producer([node], plan, history).run())
    assert len(history.of(Offered)) == batch
    return history.of(Answered)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("no-leader", "not-done"),
        ("over-limit", "not-done"),
        ("disk-full", "not-done"),
        ("outcome-unknown", "unknown"),
        ("internal", "unknown"),
        ("", "unknown"),
        ("key-conflict", "refused"),
        ("invalid-field", "refused"),
    ],
)
def test_code_of_a_line(code: str, kind: str) -> None:
    """A problem means the same whether it is the answer or one line of it; no code at all is unknown."""
    for line in ({"code": code}, {"error": {"code": code}}):
        outcome = of_line(line)
        assert ("not-done" if outcome.not_done else outcome.kind) == kind


def test_unknown_outcome_with_a_key_is_sent_again() -> None:
    """The same request again, byte for byte the same fields; the answer counts."""
    with ScriptedNode() as node:
        node.hang_up()
        node.say(503, {"code": "no-leader"})
        node.say(201, {"id": "0A", "due": DUE})
        answers = offered(node, keyed=True)
        assert [request[2] for request in node.requests] == [node.requests[0][2]] * 3
        assert node.requests[0][2]["key"] == "k0"
    assert [(answer.outcome, answer.message_id, answer.due_ms % 60_000) for answer in answers] == [
        ("acknowledged", "0A", 20_125)
    ]


def test_unknown_outcome_without_a_key_is_final() -> None:
    """Never sent twice: it may have been scheduled."""
    with ScriptedNode() as node:
        node.hang_up()
        answers = offered(node, keyed=False)
        assert len(node.requests) == 1
    assert [answer.outcome for answer in answers] == ["unknown"]


def test_nothing_done_is_sent_again_without_a_key() -> None:
    """A 503 has done nothing, so anybody may."""
    with ScriptedNode() as node:
        node.say(503, {"code": "no-leader"})
        node.say(201, {"id": "0A", "due": DUE})
        answers = offered(node, keyed=False)
        assert len(node.requests) == 2
    assert [answer.outcome for answer in answers] == ["acknowledged"]


def test_what_refuses_a_later_try_says_nothing_of_an_earlier_one() -> None:
    """A try whose outcome is not known may have scheduled the message, whatever the last one is answered."""
    with ScriptedNode() as node:
        node.hang_up()
        node.say(422, {"code": "invalid-field"})
        answers = offered(node, keyed=True)
        assert len(node.requests) == 2
    assert [answer.outcome for answer in answers] == ["unknown"]
