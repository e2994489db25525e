"""Cancel, reschedule and ack are linearizable: each message ends once, at a moment, and all answers agree on it.

A message is a register: open, then ended for good. One of its acks, its cancel, a push that was taken, or giving up
ends it. An operation takes effect between its request and its answer. So the end of a message lies:

- after every request that found it open: a reschedule, another hand-over, the extension of a lease;
- after the request that ended it;
- before every answer that found it ended;
- before the answer to the request that ended it.

Such a moment exists exactly if the latest of the first two is not after the earliest of the last two. The checker
compares them for each message. A request of unknown outcome may have ended the message at any time, so it limits
neither side.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from chaos.history.bounds import Bounds
from chaos.history.event import Acked, Cancelled, Extended, HandedOver, Nacked, Offered, Rescheduled
from chaos.history.history import History
from chaos.history.verdict import Verdict

Moment = tuple[int, str]  # true wall clock in ms, request or answer


@dataclass
class _Register:
    """The known facts about the end of one message. `ends`: the sure causes by name, with the latest moment of each."""

    open_from: list[Moment] = field(default_factory=list)  # requests that found it open
    ended_by: list[Moment] = field(default_factory=list)  # answers that found it ended
    ends: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))  # (asked, answered)
    may_end: list[Moment] = field(default_factory=list)  # requests that may have ended it, each with its name in `ends`


def check_linear(history: History, bounds: Bounds) -> Verdict:
    """Check each message. At most one cause ended it, and a moment for that exists. Every refusal as ended has a cause.
    Revisions grow with each reschedule."""
    hand_overs = history.hand_overs()
    strict = {offer.number for offer in history.of(Offered) if offer.strict}
    registers: dict[int, _Register] = defaultdict(_Register)
    for number, events in hand_overs.items():
        _see_hand_overs(registers[number], events)
    for acked in history.of(Acked):
        _see_ack(registers[acked.number], acked)
    answers: list[Nacked | Extended] = [*history.of(Nacked), *history.of(Extended)]
    for answer in answers:
        if answer.result in ("nacked", "extended"):
            registers[answer.number].open_from.append((answer.asked_wall_ms, answer.result))
        if isinstance(answer, Nacked) and answer.result not in ("stale", "refused"):
            registers[answer.number].may_end.append((answer.asked_wall_ms, "nack"))
    faults: list[str] = []
    changes: list[Cancelled | Rescheduled] = [*history.all_cancels(), *history.of(Rescheduled)]
    for change in changes:
        faults += _see_change(registers[change.number], change, hand_overs, strict)
    redriven_ids = history.redriven()
    redriven = {events[0].number for events in hand_overs.values() if events[0].message_id in redriven_ids}
    for number in redriven:
        del registers[number]  # it ended and opened again
    for number, register in sorted(registers.items()):
        faults += [f"message {number}: {fault}" for fault in _judge(register)]
    moves = history.of(Rescheduled)
    faults += _revisions(moves)
    figure = {
        "messages": len(registers),
        "ended": sum(bool(register.ends) for register in registers.values()),
        "cancels": len(history.all_cancels()),
        "reschedules": len(moves),
        "acks": len(history.of(Acked)),
    }
    return Verdict("linear", figure, faults)


def _see_hand_overs(register: _Register, events: Sequence[HandedOver]) -> None:
    for event in events:
        if event.began_ms and not event.by_receipt:
            register.open_from.append((event.began_ms, f"handed over as term {event.term}, attempt {event.attempt}"))
        if event.pushed:  # a taken push ends the message when its node hears of it; a failed one may be the last
            register.may_end.append((event.began_ms, "push"))


def _see_ack(register: _Register, event: Acked) -> None:
    name = f"ack of term {event.term}, attempt {event.attempt}"
    if event.result == "acked":
        register.ends[name].append((event.asked_wall_ms, event.wall_ms))
    elif event.result == "unknown":
        register.may_end.append((event.asked_wall_ms, name))


def _see_change(
    register: _Register,
    event: Cancelled | Rescheduled,
    hand_overs: Mapping[int, Sequence[HandedOver]],
    strict: Set[int],
) -> list[str]:
    """Put a cancel or reschedule into its message's register. Return a violation if the answer is false by itself:
    refused as leased, before the message was first handed over."""
    if event.outcome in ("cancelled", "moved"):
        if isinstance(event, Cancelled):
            register.ends["cancel"].append((event.asked_wall_ms, event.wall_ms))
        else:
            register.open_from.append((event.asked_wall_ms, "rescheduled"))
    elif event.outcome == "unknown":
        if isinstance(event, Cancelled):
            register.may_end.append((event.asked_wall_ms, "cancel"))
    elif "already-settled" in event.detail:
        register.ended_by.append((event.wall_ms, "already settled"))
    elif "leased" in event.detail and event.number not in strict:
        # Only the nodes know of a hand-over that its receiver never saw. A strict message is leased before its
        # hand-over. If the leader loses its term between the two, the Lease is taken back.
        seen = hand_overs.get(event.number, ())
        after = [other for other in seen if other.began_ms > event.wall_ms and not other.by_receipt]
        if seen and len(after) == len(seen) and seen[0].attempt == 1:
            return [f"message {event.number}: refused as leased at {event.wall_ms}, before its first hand-over"]
    return []


def _judge(register: _Register) -> list[str]:
    ends = register.ends
    if len(ends) > 1:
        return [f"ended more than once: {', '.join(sorted(ends))}"]
    faults: list[str] = []
    asked_ms: int | None = None
    before_ms = list(register.ended_by)
    if ends:
        ((name, times),) = ends.items()
        # A request whose answer was lost may be the cause: the next answer is then the same.
        before = [asked for asked, what in register.may_end if what == name]
        asked_ms = min([*before, *(asked for asked, _ in times)])
        before_ms.append((min(answered for _, answered in times), name))
    elif register.ended_by:
        asked_ms = min((asked for asked, _ in register.may_end), default=None)
        if asked_ms is None:
            return ["refused as settled, and nothing can have ended it"]
    if not before_ms:
        return faults
    first_ms, first = min(before_ms)
    if asked_ms is not None and asked_ms > first_ms:
        faults.append(f"{first}, answered at {first_ms}, before anything that ends it was asked, at {asked_ms}")
    late = [(ms, what) for ms, what in register.open_from if ms > first_ms]
    return faults + [f"{what} at {ms}, after {first} was answered at {first_ms}" for ms, what in late]


def _revisions(moves: Sequence[Rescheduled]) -> list[str]:
    """Check that reschedules of one message have different revisions, rising where they do not overlap."""
    faults: list[str] = []
    by_number: dict[int, list[Rescheduled]] = defaultdict(list)
    for move in moves:
        if move.outcome == "moved" and move.revision:
            by_number[move.number].append(move)
    for number, several in by_number.items():
        for one in several:
            for other in several:
                if one is not other and one.wall_ms < other.asked_wall_ms and one.revision >= other.revision:
                    faults.append(f"message {number}: revision {other.revision} after revision {one.revision}")
    return faults
