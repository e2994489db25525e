"""What a simulated machine tells of its process."""

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.simulator.world.process import Process


@pytest.mark.parametrize(("node", "group", "told"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_19102_a_group_that_is_opened_again_holds_nobody_up(node: bool, group: bool, told: int) -> None:
    """Seed 19102: a node that took a snapshot over was judged for the time that it takes to open its hours. Its front
    is open meanwhile, and whoever asks waits for that: before, nobody could ask at all."""
    held: list[Any] = []
    process: Any = Process.__new__(Process)
    process.id, process._around = "n1", SimpleNamespace(on_held=lambda *step: held.append(step))
    groups = {0: SimpleNamespace(life=SimpleNamespace(serves=group))}
    incarnation: Any = SimpleNamespace(node=SimpleNamespace(life=SimpleNamespace(serves=node), groups=groups))
    process._charged(incarnation, 0.158, {"bytes of index": 157.6})
    assert len(held) == told
