"""Promise L: no message was acknowledged and never handed over."""

from chaos.history.bounds import Bounds
from chaos.history.event import Answered, DeadLettered, HandedOver
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_lost(history: History, bounds: Bounds) -> Verdict:
    """Check promise L: every acknowledged message was handed over, became a dead letter, or may have been cancelled."""
    handed_over = {event.number for event in history.of(HandedOver) if event.taken}
    handed_over |= {event.number for event in history.of(DeadLettered)}
    cancelled = {number for number, event in history.cancels().items() if event.outcome != "refused"}
    acknowledged = history.acknowledged()
    lost = [event for number, event in acknowledged.items() if number not in handed_over and number not in cancelled]
    answers = history.of(Answered)
    figure = {
        "acknowledged": len(acknowledged),
        "refused": sum(event.outcome == "refused" for event in answers),
        "unknown": sum(event.outcome == "unknown" for event in answers),
        "delivered": len(handed_over & acknowledged.keys()),
        "lost": len(lost),
    }
    return Verdict(
        "L",
        figure,
        [f"message {event.number} ({event.message_id}), due {event.due_ms}: never handed over" for event in lost],
    )
