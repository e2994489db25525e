"""The picture of a demo: which deliveries are repeats, and that it is drawn."""

from datetime import UTC, datetime
from pathlib import Path

from bench.client.receivers import Received
from bench.demo.picture import Delivered, deliveries, draw
from chaos.history.event import HandedOver


def pulled(at_ms: int, name: str, due_ms: int) -> HandedOver:
    """A delivery to a consumer."""
    return HandedOver(
        mono_ms=0.0, wall_ms=at_ms, number=1, message_id=name, term=1, attempt=1, due_ms=due_ms, asked_due_ms=due_ms,
        handed_over_ms=at_ms, leased_until_ms=0, node="n1", connection="c", response=1,
    )  # fmt: skip


def pushed(at_ms: float, name: str, due_ms: int) -> Received:
    """A delivery to a receiver."""
    return Received(at_ms, 1, 200, name, 1, 1, datetime.fromtimestamp(due_ms / 1000, UTC))


def test_both_halves_in_the_order_of_time_with_repeats_named(tmp_path: Path) -> None:
    """A message that comes a second time is one that came again, whichever half it is of; the picture is written."""
    made = deliveries([pulled(3_000, "a", 2_990), pulled(1_000, "a", 990)], [pushed(2_000, "b", 1_995)])
    assert made == [Delivered(1_000, 10, False), Delivered(2_000, 5, False), Delivered(3_000, 10, True)]
    draw(made, 1_500, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
