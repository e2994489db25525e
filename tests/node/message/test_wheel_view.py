"""An hour of the wheel on a whole node: held against the counts of the same messages."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest

import node.message.wheel_view
from api.port.port import ANONYMOUS
from api.port.problem import Problem
from api.port.queries import CountQuery, WheelHour, WheelQuery
from node.node import Node
from storage.format.position import HOUR_MS
from storage.format.rows import Corrupt
from storage.query.seconds import HourSeconds
from tests.node.message.everything import everything
from tests.node.single_node import run_node


async def _hour(node: Node, at_ms: int | None = None, topic: str | None = None) -> WheelHour:
    return await node.front.wheel(WheelQuery(at_ms, topic), principal=ANONYMOUS)


async def _count(node: Node, topic: str | None, from_ms: int, to_ms: int) -> int:
    query = CountQuery(topic=topic, from_ms=from_ms, to_ms=to_ms)
    return (await node.front.count(query, principal=ANONYMOUS)).count


def test_its_seconds_are_those_of_the_messages(tmp_path: Path) -> None:
    """Each second as many open ones as a count has, whatever happened to them; a topic has its own. An hour without
    messages has no seconds."""

    async def play(node: Node) -> None:
        await everything(node)
        now_ms = node.front.now_ms()
        used = 0
        for hour in range(now_ms // HOUR_MS - 1, now_ms // HOUR_MS + 8):
            shown = {topic: await _hour(node, hour * HOUR_MS + 17, topic) for topic in (None, "a", "b")}
            for topic, found in shown.items():
                assert found.hour_ms == hour * HOUR_MS
                assert [each.second for each in found.seconds] == sorted({each.second for each in found.seconds})
                for each in found.seconds:
                    begin_ms = each.second * 1000
                    assert each.open_units == await _count(node, topic, begin_ms, begin_ms + 1000) <= each.units
                count = await _count(node, topic, hour * HOUR_MS, (hour + 1) * HOUR_MS)
                assert sum(each.open_units for each in found.seconds) == count
                used += len(found.seconds) if topic is None else 0
            both = [sum(each.units for each in shown[topic].seconds) for topic in (None, "a", "b")]
            assert both[0] == both[1] + both[2]
        assert used > 3
        found = await _hour(node)
        assert found.hour_ms <= now_ms < found.hour_ms + 2 * HOUR_MS
        assert abs(found.tick * 1000 - now_ms) < HOUR_MS
        with pytest.raises(Problem, match="unknown-topic"):
            await _hour(node, topic="nowhere")

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize("linked", [False, True])
def test_an_hour_that_is_forgotten_meanwhile_has_no_seconds(tmp_path: Path, linked: bool) -> None:
    """Its files are gone while they are read. Of an hour that is there the same is damage, which ends the node."""

    async def play(node: Node) -> None:
        await everything(node)
        with (
            patch.object(HourSeconds, "run", side_effect=Corrupt("index", 0, "magic", 1, 2)),
            patch.object(type(node.group.store), "is_linked", return_value=linked),
        ):
            assert (await _hour(node, node.front.now_ms() + HOUR_MS)).seconds == []

    with pytest.raises(Corrupt) if linked else nullcontext():
        run_node(tmp_path / "n1", play)


def test_few_look_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More are refused by name, and all others are answered."""
    monkeypatch.setattr(node.message.wheel_view, "WAITING_MAX", 3)

    async def play(node: Node) -> None:
        await everything(node)
        at_ms = node.front.now_ms() + HOUR_MS
        looks = await asyncio.gather(*(_hour(node, at_ms) for _ in range(5)), return_exceptions=True)
        refused = [each for each in looks if isinstance(each, Problem)]
        assert [each.code for each in refused] == ["over-limit"] * 2
        assert len([each for each in looks if isinstance(each, WheelHour)]) == 3

    run_node(tmp_path / "n1", play)
