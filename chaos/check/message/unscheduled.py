"""Promise U: no message comes out though no client scheduled it, or after its cancel, or before a reschedule's due
time."""

from collections import defaultdict

from chaos.history.bounds import Bounds
from chaos.history.event import Rescheduled
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_unscheduled(history: History, bounds: Bounds) -> Verdict:
    """Check promise U: every delivery belongs to an offered message with one id. None comes after a cancel said that it
    would not, or before the due time of a reschedule."""
    offered, answered = history.offered(), history.answered()
    cancels = history.cancels()
    faults: list[str] = []
    for number, events in history.hand_overs().items():
        answer = answered.get(number)
        if number not in offered or (answer is not None and answer.outcome == "refused"):
            faults.append(f"message {number}: handed over, {'refused' if answer else 'never offered'}")
        ids = {event.message_id for event in events}
        if answer is not None and answer.message_id:
            ids.add(answer.message_id)
        if len(ids) > 1:
            faults.append(f"message {number}: scheduled more than once, as {', '.join(sorted(ids))}")
        cancel = cancels.get(number)
        if cancel is None or cancel.outcome != "cancelled":
            continue
        after = [event for event in events if event.began_ms > cancel.wall_ms and not event.by_receipt]
        if after:
            faults.append(f"message {number}: handed over at {after[0].began_ms}, cancel answered at {cancel.wall_ms}")
    moved = [event for event in history.of(Rescheduled) if event.outcome == "moved"]
    faults += _before_moved(history, moved)
    figure = {
        "handed_over": len(history.hand_overs()),
        "cancelled": sum(cancel.outcome == "cancelled" for cancel in cancels.values()),
        "moved": len(moved),
        "raced": len(cancels) + len(history.of(Rescheduled)),
        "wrong": len(faults),
    }
    return Verdict("U", figure, faults)


def _before_moved(history: History, moved: list[Rescheduled]) -> list[str]:
    """A violation for each reschedule after whose answer the next hand-over came before the new due time, by its
    leader's clock. Exceptions:

    - another reschedule was under way at the answer or later;
    - the message died and was redriven: then it is due at once, by a clock that may have been set back.
    """
    hand_overs, redriven = history.hand_overs(), history.redriven()
    moves: dict[int, list[Rescheduled]] = defaultdict(list)
    for move in history.of(Rescheduled):
        moves[move.number].append(move)
    return [
        f"message {move.number}: handed over at {event.handed_over_ms}, moved to {move.due_ms} at {move.wall_ms}"
        for move in moved
        for event in [each for each in hand_overs.get(move.number, ()) if move.wall_ms < each.began_ms][:1]
        if not event.by_receipt
        and move.message_id not in redriven
        and event.handed_over_ms < move.due_ms
        and not any(
            other is not move and other.wall_ms >= move.asked_wall_ms and other.asked_wall_ms <= event.began_ms
            for other in moves[move.number]
        )
    ]
