"""Promise `restored`: a cluster made from a backup claims nothing certain about what the old cluster did since the
backup."""

from collections.abc import Iterable

from chaos.check.message.sums import ENDED
from chaos.history.bounds import Bounds
from chaos.history.event import Applied, BackedUp, Recalled, Settled
from chaos.history.history import History
from chaos.history.verdict import Verdict
from storage.format.message_id import decode_id


def check_restored(history: History, bounds: Bounds) -> Verdict:
    """Check that the restored cluster knows each message that is open in the backup. A certain answer about its
    hand-overs counts all that consumers received, from the old cluster and from this one."""
    answers = history.of(Recalled)
    if not answers:
        return Verdict("restored", {}, [])
    received = {
        number: len({(event.term, event.attempt) for event in events})
        for number, events in history.hand_overs().items()
    }
    open_, _ = held(history)
    redriven = history.redriven()
    faults: list[str] = []
    for told in answers:
        count = received.get(told.number, 0) + told.again
        if told.answer == "unknown-message":
            if told.number in open_:
                faults.append(f"message {told.number}: open in the backup, and the restored cluster does not know it")
        elif told.answer == "cancelled" and told.message_id not in redriven:
            faults += _cancel(told, count)
        elif told.answer == "accounted":
            faults += _account(told, count)
    figure = {
        "asked": len(answers),
        "doubts": sum(told.prior == "unknown" for told in answers),
        "incomplete": sum(told.answer == "accounted" and not told.complete for told in answers),
        "again": sum(told.again > 0 for told in answers),
        "wrong": len(faults),
    }
    return Verdict("restored", figure, faults)


def _cancel(told: Recalled, received: int) -> Iterable[str]:
    if received and (told.prior == "none" or (told.prior == "known" and received > told.attempts_made)):
        yield f"message {told.number}: cancel said {told.attempts_made} before ({told.prior}), {received} received"


def _account(told: Recalled, received: int) -> Iterable[str]:
    name = f"message {told.number}: the ledger said {told.kind}, {told.hand_overs} hand-overs"
    if told.kind == "lost" and received:
        yield f"{name}, {received} received"
    elif told.complete and told.hand_overs < received:
        yield f"{name}, complete, {received} received"
    elif told.kind == "delivered_once" and not told.old and told.again and received > told.again:
        yield f"{name}, {received - told.again} received before the restore and {told.again} since"


def held(history: History) -> tuple[set[int], set[int]]:
    """The numbers of acknowledged messages in the backup, which ends with the entry at its `applied_index`. The first
    set has those that were open at that entry, the second those that had ended by it."""
    (backup,) = history.of(BackedUp)
    born = {position: event.index for event in history.of(Applied) for position, _ in event.units}
    ended = {
        event.message_id for event in history.of(Settled) if event.what in ENDED and event.index <= backup.applied_index
    }
    numbers: tuple[set[int], set[int]] = set(), set()
    for number, message in history.acknowledged().items():
        if born[decode_id(message.message_id).position] <= backup.applied_index:
            numbers[message.message_id in ended].add(number)
    return numbers
