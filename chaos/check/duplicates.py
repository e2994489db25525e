"""D: what comes twice, and why."""

import itertools

from chaos.bounds import Bounds
from chaos.history import History
from chaos.verdict import Verdict


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
