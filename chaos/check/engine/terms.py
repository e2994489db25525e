"""Promise S: one leader per term, and terms never go back."""

from dataclasses import dataclass, field

from chaos.history.bounds import Bounds
from chaos.history.event import HandedOver, Led
from chaos.history.history import History
from chaos.history.verdict import Verdict


@dataclass
class _Terms:
    """The state of `check_terms` while it reads the hand-overs in order.

    - `highest`: the highest term so far.
    - `begun_ms`: by term, until when the leader before may have chosen a delivery.
    - `late`: by connection and term, the answers that came after a later term had begun.
    """

    highest: int = 0
    begun_ms: dict[int, int] = field(default_factory=dict)
    late: dict[tuple[str, int], set[int]] = field(default_factory=dict)


def check_terms(history: History, bounds: Bounds) -> Verdict:
    """Check promise S: one leader per term. After the first hand-over of a term a delivery of an older term may still
    arrive. Its leader has to have chosen it before the fault that ended the older term.

    The delivery's `handed_over_ms` says when its leader chose it. It is compared with the begin of the last fault that
    ended a term before the new term's first hand-over. After a transfer it is compared with that hand-over itself. A
    connection may carry one answer of an old term, because its leader may have made one write before it noticed the new
    term.
    """
    faults: list[str] = []
    leaders: dict[int, set[str]] = {}
    for led in history.of(Led):
        leaders.setdefault(led.term, set()).add(led.leader)
    faults += [
        f"term {term} was led by {', '.join(sorted(names))}" for term, names in leaders.items() if len(names) > 1
    ]
    ending = ("kill", "pause", "wipe") if bounds.fault_ends_term else ()
    begun = [fault.wall_ms for fault in history.faults() if fault.kind in ending]
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
