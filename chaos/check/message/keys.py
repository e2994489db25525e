"""A key has one holder. Each message loses its key at most one time, and no message is created beside a holder that
waits for its due time.

A holder surely waits for the whole time of a request if it was acknowledged before. Nothing that may have ended or
leased it was asked or begun before the answer. A request of unknown outcome may have changed any holder of its key.
Strict messages are leased ahead of their hand-over, and a lease of which no hand-over came is not seen (seed 809). So
their keys may be let go at any time. Real processes tell of no lease but by the hand-over that a consumer got. There
nothing is said of messages that were created.
"""

from collections import Counter, defaultdict

from chaos.history.bounds import Bounds
from chaos.history.event import Begun, Cancelled, Gone, HandedOver, Offered, Wished
from chaos.history.history import History
from chaos.history.verdict import Verdict

NEVER = float("inf")


def check_keys(history: History, bounds: Bounds) -> Verdict:
    """Check each key by the answers to the messages that replace or extend its holder."""
    by_name: dict[str, list[Wished]] = defaultdict(list)
    for wished in history.of(Wished):
        by_name[wished.name].append(wished)
    touched = _touched(history)
    tells_leases = bool(history.of(Begun))
    strict = {offer.number for offer in history.of(Offered) if offer.strict}
    faults: list[str] = []
    beside = 0
    for name, answers in sorted(by_name.items()):
        faults += [f"{name}: {fault}" for fault in _previous(answers)]
        created = [each for each in answers if each.outcome == "created" and each.number not in strict]
        open_by = _known(answers)
        for each in created if tells_leases else ():
            if any(other.outcome == "unknown" and other.asked_mono_ms <= each.mono_ms for other in answers):
                continue
            for id, since_ms in open_by.items():
                if since_ms < each.asked_mono_ms and id != each.message_id:
                    beside += 1
                    if touched.get(id, NEVER) > each.mono_ms:
                        faults.append(f"{name}: message {each.number} was created beside the holder {id}")
    outcomes = Counter(each.outcome for each in history.of(Wished))
    figure = {
        "wishes": outcomes.total(),
        "created": outcomes["created"],
        "replaced": outcomes["replaced"],
        "extended": outcomes["extended"],
        "beside": beside,
        "wrong": len(faults),
    }
    return Verdict("keys", figure, faults)


def _known(answers: list[Wished]) -> dict[str, float]:
    """The moment at which each message was known to have the key first."""
    known: dict[str, float] = {}
    for each in answers:
        if each.message_id:
            known[each.message_id] = min(each.mono_ms, known.get(each.message_id, NEVER))
    return known


def _previous(answers: list[Wished]) -> list[str]:
    """A message is replaced once. One that was replaced is extended by no request that was asked after that answer."""
    faults: list[str] = []
    replaced: dict[str, Wished] = {}
    for each in answers:
        if each.outcome != "replaced":
            continue
        if each.previous in replaced:
            faults.append(f"{each.previous} was replaced by {replaced[each.previous].number} and by {each.number}")
        replaced[each.previous] = each
    for each in answers:
        by = replaced.get(each.message_id)
        if each.outcome == "extended" and by is not None and by.mono_ms < each.asked_mono_ms:
            faults.append(f"{each.message_id} was extended by {each.number}, after {by.number} had replaced it")
    return faults


def _touched(history: History) -> dict[str, float]:
    """The first moment at which something may have ended or leased each message."""
    found: dict[str, float] = {}
    for event in history.events:
        if isinstance(event, Begun):
            at_ms = event.mono_ms
        elif isinstance(event, HandedOver):
            at_ms = event.mono_ms - max(0, event.wall_ms - event.began_ms)
        elif isinstance(event, Cancelled | Gone):
            at_ms = event.mono_ms - (event.wall_ms - event.asked_wall_ms) - 1
        else:
            continue
        found[event.message_id] = min(at_ms, found.get(event.message_id, NEVER))
    for event in history.of(Wished):
        if event.outcome == "replaced":
            found[event.previous] = min(event.asked_mono_ms, found.get(event.previous, NEVER))
    return found
