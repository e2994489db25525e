"""A topic's settings as they are set and shown, on a whole node."""

from pathlib import Path
from typing import Any

import pytest

from api.port.message import Target
from api.port.port import ANONYMOUS, RetryPolicy, TopicChange
from api.port.problem import Problem
from node.node import Node
from tests.node.single_node import run_node


def test_settings_are_set_merged_and_taken_away(tmp_path: Path) -> None:
    """A PATCH merges target and retry field by field, null takes a setting away, a PUT starts anew."""

    async def play(node: Node) -> None:
        service = node.front

        async def change(create: bool, **fields: Any) -> Any:
            wish = TopicChange(**fields)
            return await service.put_topic("t", wish, create=create, if_match=None, principal=ANONYMOUS)

        url = "http://example.com/"
        view = await change(True, mode="push", target={"url": url, "timeout_ms": 500}, retry={"max_attempts": 3})
        assert view.target == Target(url=url, timeout_ms=500)
        assert view.retry == RetryPolicy(max_attempts=3, min_backoff_ms=1_000, max_backoff_ms=3_600_000, max_age_ms=0)
        view = await change(False, target={"method": "PUT", "timeout_ms": None}, dead_letter="graves")
        assert view.target == Target(url=url, method="PUT")
        assert (view.mode, view.dead_letter, view.retry.max_attempts) == ("push", "graves", 3)
        with pytest.raises(Problem, match="invalid-field"):
            await change(False, target={"url": None})
        view = await change(False, target=None, retry=None, dead_letter=None)
        assert (view.target, view.dead_letter, view.retry.max_attempts) == (None, None, 16)
        assert (await service.topic("t", principal=ANONYMOUS)).revision == 3
        view = await change(True, mode="pull")
        assert (view.mode, view.lease_ms) == ("pull", 30_000)

    run_node(tmp_path / "n1", play)
