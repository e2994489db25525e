"""A new leader hands over every due unit that has no lease and has not ended, and gives each hand-over a name of its
own. The newest hand-over of a unit stays recorded: the lease of an older one never replaces it."""

from collections import Counter, defaultdict

from chaos.history.bounds import Bounds
from chaos.history.event import Acked, Begun, DeadLettered, HandedOver, Promoted, Rescheduled, SetBack, Settled
from chaos.history.history import History
from chaos.history.verdict import Verdict
from storage.format.states import CANCELLED


def check_promotion(history: History, bounds: Bounds) -> Verdict:
    """Check three things of each term:

    - a message that is open when the term begins is handed over in that term or later, unless it ends or moves;
    - no two hand-overs have the same name (id, term, attempt);
    - no node sets a unit back to an older hand-over.
    """
    begun: dict[str, int] = defaultdict(int)  # id -> the last term in which it was handed over
    names: Counter[tuple[str, int, int]] = Counter()
    for event in history.of(Begun):
        begun[event.message_id] = max(begun[event.message_id], event.term)
        names[event.message_id, event.term, event.attempt] += 1
    ended = _may_have_ended(history)
    faults = [
        f"{name[0]}: handed over {count} times as term {name[1]}, attempt {name[2]}"
        for name, count in names.items()
        if count > 1
    ]
    promoted = history.of(Promoted)
    for seen_term in promoted:
        left = [name for name in seen_term.open_ids if begun[name] < seen_term.term and name not in ended]
        faults += [
            f"{name}: open when {seen_term.node} began term {seen_term.term}, never handed over after" for name in left
        ]
    faults += [
        f"{back.node} sets the unit at {back.position:#x} back to the hand-over of term {back.fence[0]}, attempt "
        f"{back.fence[1]}, after that of term {back.newest[0]}, attempt {back.newest[1]}"
        for back in history.of(SetBack)
    ]
    figure = {"promotions": len(promoted), "brought_back": sum(len(seen_term.open_ids) for seen_term in promoted)}
    return Verdict("promotion", figure, faults)


def _may_have_ended(history: History) -> set[str]:
    """The ids of messages that an ack, cancel, reschedule or push may have ended or moved. A message whose client never
    got its id may have been replaced, or cancelled by an operation: the log says so (seeds 1013 and 1287)."""
    ended = {event.message_id for event in history.of(Acked) if event.result in ("acked", "unknown")}
    ended |= {event.message_id for event in history.all_cancels() if event.outcome != "refused"}
    ended |= {event.message_id for event in history.of(Rescheduled) if event.outcome != "refused"}
    ended |= {event.message_id for event in history.of(Settled) if event.what == CANCELLED}
    for letter in history.of(DeadLettered):
        ended |= {letter.message_id, letter.letter_id}  # acks of letters are not recorded
    return ended | {event.message_id for event in history.of(HandedOver) if event.pushed and event.taken}
