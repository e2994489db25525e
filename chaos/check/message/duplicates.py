"""Promise D: each repeated delivery has a cause."""

from chaos.history.bounds import Bounds
from chaos.history.history import History
from chaos.history.repeats import repeats
from chaos.history.verdict import Verdict


def check_duplicates(history: History, bounds: Bounds) -> Verdict:
    """Check promise D: every repeat has an allowed cause, and the failover duplicates of a term lie within a short span
    of time.

    That span is measured between the EARLIER hand-overs of the failover duplicates, which the next term repeated. A
    message of a strict topic has no failover duplicates.
    """
    faults: list[str] = []
    failover, earlier_ms = 0, dict[int, list[int]]()
    found = repeats(history, bounds)
    strict = {event.number for event in history.offered().values() if event.strict}
    for repeat in found:
        before, after, number = repeat.before, repeat.after, repeat.before.number
        if repeat.cause == "same_name":
            faults.append(f"message {number}: handed over twice as term {after.term}, attempt {after.attempt}")
        elif repeat.cause == "unnamed":
            faults.append(f"message {number}: again at {after.handed_over_ms}, leased to {repeat.lease_end_ms}")
        elif repeat.cause == "failover":
            if not before.by_receipt:  # when it began is not known
                earlier_ms.setdefault(before.term, []).append(before.handed_over_ms)
            failover += 1
            if number in strict:
                faults.append(f"message {number}: strict, handed over in term {before.term} and in {after.term}")
    spans = {term: max(times) - min(times) for term, times in earlier_ms.items()}
    for term, span_ms in spans.items():
        if span_ms > bounds.duplicate_span_ms:
            faults.append(
                f"the failover duplicates of term {term} span {span_ms} ms, the bound is {bounds.duplicate_span_ms}"
            )
    after_lease = sum(repeat.cause == "after_lease" for repeat in found)
    figure = {
        "duplicates": failover + after_lease,
        "failover": failover,
        "after_lease": after_lease,
        "retried": sum(repeat.cause == "retried" for repeat in found),
        "span_ms": max(spans.values(), default=0),
    }
    return Verdict("D", figure, faults)
