"""What receivers write down of a push."""

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.history.event import Begun, HandedOver
from chaos.history.history import History
from chaos.simulator.load.load import PUSH_LEASE_MORE_MS, PUSH_TIMEOUT_MS
from chaos.simulator.load.targets import Targets
from chaos.simulator.world.receivers import Received

AT_MS = 1_000_000


@pytest.mark.parametrize(("in_log_ms", "until_ms"), [(AT_MS + 700, AT_MS + 700), (0, None)])
def test_a_lease_runs_until_the_log_says_or_from_the_send_where_it_says_nothing(
    in_log_ms: int, until_ms: int | None
) -> None:
    """Seed 36008: a strict push was sent 691 ms behind its planned moment, as its leader had a slow disk. Its
    lease seemed to run so much longer than it did, and another leader to repeat it too early."""
    world = SimpleNamespace(random=random.Random, receivers=SimpleNamespace(behave=lambda name, behaviour: None))
    begun = Begun(
        mono_ms=0.0,
        wall_ms=AT_MS,
        node="n1",
        message_id="id",
        term=1,
        attempt=1,
        at_ms=AT_MS,
        asked_due_ms=AT_MS,
        pushed=True,
        leased_until_ms=in_log_ms,
    )
    history = History(now=lambda: (0.0, AT_MS))
    Targets(cast(Any, world), history, cast(Any, SimpleNamespace(begun={("id", 1, 1): begun})))
    world.receivers.on_received(Received(0.0, "", "n1", "id", 1, 1, 200, b"7"))
    (event,) = history.of(HandedOver)
    assert event.leased_until_ms == (until_ms or AT_MS + PUSH_TIMEOUT_MS + PUSH_LEASE_MORE_MS)
    assert event.gives_up_ms == AT_MS + PUSH_TIMEOUT_MS
