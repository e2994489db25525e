"""One checker per promise: each reads a history, says whether the promise held, and gives the figure that a reader
would ask for.

The letters are those of the invariants that every fault is judged by:

- L  acknowledged and never handed over = 0
- U  handed over though never scheduled, twice scheduled, or after an acknowledged cancel = 0
- W  each hand-over in its window, never early
- P  every webhook received has a start in the delivery log of the node that sent it
- D  failover duplicates of one term change span at most 50 ms of hand-over time; any other repeat has the end of a
  lease or a failed attempt as its cause
- S  one leader per term; terms never go back, but for what an old leader had chosen before its fault
- T  a planned transfer repeats nothing and pauses hand-overs for a moment only
- R  after a fault the service comes back in time, and outside the fault windows what is offered is acknowledged

A checker knows nothing of the cluster but the history, so planting one fault in a good history must turn exactly its
promise red; the tests do.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.availability import check_recovery
from chaos.bounds import Bounds
from chaos.event import Answered, HandedOver, Led, Rescheduled
from chaos.history import History
from chaos.transfers import check_transfers
from chaos.verdict import Verdict, percentiles


def check_lost(history: History, bounds: Bounds) -> Verdict:
    """L: every acknowledged message was handed over, or a cancel of it may have succeeded."""
    handed_over = {event.number for event in history.of(HandedOver) if event.taken}
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


def check_unscheduled(history: History, bounds: Bounds) -> Verdict:
    """U: nothing comes out that was not put in, or under two ids, or after a cancel said it would not, or before
    the time that a reschedule moved it to.
    """
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
        after = [event for event in events if event.handed_over_ms > cancel.wall_ms]
        if after:
            faults.append(
                f"message {number}: handed over at {after[0].handed_over_ms}, cancel answered at {cancel.wall_ms}"
            )
        elif cancel.prior == "none" or (cancel.prior == "known" and len(events) > cancel.attempts_made):
            faults.append(
                f"message {number}: cancel said {cancel.attempts_made} before ({cancel.prior}), {len(events)} received"
            )
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
    """Hand-overs begun between the answer to a reschedule and the due time it gave."""
    hand_overs = history.hand_overs()
    return [
        f"message {move.number}: handed over at {event.handed_over_ms}, moved to {move.due_ms} at {move.wall_ms}"
        for move in moved
        for event in hand_overs.get(move.number, ())
        if move.wall_ms < event.handed_over_ms < move.due_ms
    ]


def check_started(history: History, bounds: Bounds) -> Verdict:
    """P: the nodes' own accounts are complete: what a receiver got, a node had written down before it sent it."""
    pushed = [event for event in history.of(HandedOver) if event.pushed]
    faults = [
        f"message {event.number}: received as term {event.term}, attempt {event.attempt}; no node wrote that it began"
        for event in pushed
        if not event.handed_over_ms
    ]
    failed = sum(not event.taken for event in pushed)
    return Verdict("P", {"webhooks": len(pushed), "answered_500": failed, "unaccounted": len(faults)}, faults)


def check_window(history: History, bounds: Bounds) -> Verdict:
    """W: nothing before its due millisecond by the leader's clock, nor by the receiver's beyond the skew bound; first
    hand-overs in time.

    Lateness is the receiver's clock minus the due time asked for. The late bound applies to messages due outside the
    fault windows.
    """
    answered = history.acknowledged()
    windows = bounds.fault_windows(history)
    faults: list[str] = []
    early = 0
    lateness: list[float] = []
    for number, events in history.hand_overs().items():
        for event in events:
            due_ms = max(event.due_ms, answered[number].due_ms if number in answered else 0)
            if event.handed_over_ms < due_ms or event.wall_ms < due_ms - bounds.skew_ms:
                early += 1
                faults.append(
                    f"message {number}: due {due_ms}, handed over {event.handed_over_ms}, received {event.wall_ms}"
                )
        first = min(events, key=lambda event: event.mono_ms)
        lateness.append(first.wall_ms - first.asked_due_ms)
        calm = not any(begin <= first.mono_ms and first.mono_ms - lateness[-1] <= end for begin, end in windows)
        if bounds.late_ms is not None and calm and lateness[-1] > bounds.late_ms:
            faults.append(f"message {number}: {lateness[-1]:.0f} ms late, outside any fault window")
    return Verdict("W", {"early": early, "lateness_ms": percentiles(lateness)}, faults)


def check_duplicates(history: History, bounds: Bounds) -> Verdict:
    """D: names the cause of every repeat, and bounds those that a term change causes.

    A repeat in a later term while the lease of the earlier hand-over still ran means that the log did not hold it: a
    failover duplicate. Its place in the span is when the EARLIER hand-over was made. A repeat after that lease had
    ended is the consumer's, counted apart.
    """
    faults: list[str] = []
    earlier_ms: dict[int, list[int]] = {}
    after_lease = retried = 0
    for number, events in history.hand_overs().items():
        for before, after in itertools.pairwise(events):
            if (after.term, after.attempt) == (before.term, before.attempt):
                faults.append(f"message {number}: handed over twice as term {after.term}, attempt {after.attempt}")
            elif not before.taken:
                retried += 1
            elif after.handed_over_ms >= before.leased_until_ms:
                after_lease += 1
            elif before.pushed and after.handed_over_ms >= before.gives_up_ms:
                retried += 1  # the node heard nothing in time: it may have been paused
            elif after.term > before.term:
                earlier_ms.setdefault(before.term, []).append(before.handed_over_ms)
            else:
                faults.append(f"message {number}: again at {after.handed_over_ms}, leased to {before.leased_until_ms}")
    spans = {term: max(times) - min(times) for term, times in earlier_ms.items()}
    for term, span_ms in spans.items():
        if span_ms > bounds.duplicate_span_ms:
            faults.append(
                f"the failover duplicates of term {term} span {span_ms} ms, the bound is {bounds.duplicate_span_ms}"
            )
    count = sum(len(times) for times in earlier_ms.values())
    figure = {
        "duplicates": count + after_lease,
        "failover": count,
        "after_lease": after_lease,
        "retried": retried,
        "span_ms": max(spans.values(), default=0),
    }
    return Verdict("D", figure, faults)


@dataclass
class _Terms:
    """The state of the walk in `check_terms`: the highest term seen and what came late from older ones."""

    highest: int = 0
    begun_ms: dict[int, int] = field(default_factory=dict)
    late: dict[tuple[str, int], set[int]] = field(default_factory=dict)


def check_terms(history: History, bounds: Bounds) -> Verdict:
    """S: one leader per term; after a term's first hand-over an older term's may arrive only if chosen before the
    fault that ended it.

    "Chosen before" is judged by the leader's own stamp against the begin of the last fault that ended a term before the
    new term's first hand-over (where leadership was given away: against that hand-over itself), and a connection may
    carry one such answer per term: what stood in one write.
    """
    faults: list[str] = []
    leaders: dict[int, set[str]] = {}
    for led in history.of(Led):
        leaders.setdefault(led.term, set()).add(led.leader)
    faults += [
        f"term {term} was led by {', '.join(sorted(names))}" for term, names in leaders.items() if len(names) > 1
    ]
    begun = [fault.wall_ms for fault in history.faults() if fault.kind in ("kill", "pause", "wipe")]
    terms = _Terms()
    first_ms = 0
    late_count = 0
    for event in history.of(HandedOver):
        if event.term > terms.highest:
            terms.highest = event.term
            ended = (ms for ms in begun if first_ms <= ms <= event.handed_over_ms)
            terms.begun_ms[event.term] = max(ended, default=event.handed_over_ms)
            first_ms = event.handed_over_ms
        elif event.term < terms.highest:
            late_count += 1
            next_term = min(term for term in terms.begun_ms if term > event.term)
            if event.handed_over_ms > terms.begun_ms[next_term] + bounds.skew_ms:
                faults.append(
                    f"message {event.number}: of term {event.term} at {event.handed_over_ms}, past the fault ending it"
                )
            answers = terms.late.setdefault((event.connection, event.term), set())
            answers.add(event.response)
            if len(answers) == 2:
                faults.append(
                    f"{event.connection}: two answers of term {event.term} after term {terms.highest} had begun"
                )
    return Verdict("S", {"terms": len(terms.begun_ms), "old_term_after_new": late_count}, faults)


CHECKERS: tuple[Callable[[History, Bounds], Verdict], ...] = (
    check_lost,
    check_unscheduled,
    check_window,
    check_started,
    check_duplicates,
    check_terms,
    check_transfers,
    check_recovery,
)


def judge(history: History, bounds: Bounds) -> list[Verdict]:
    """All verdicts, in the order of the promises."""
    return [check(history, bounds) for check in CHECKERS]
