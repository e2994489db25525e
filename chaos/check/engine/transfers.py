"""Promise T: clients do not notice a transfer: nothing comes twice, and hand-overs pause only for a moment. The same
holds for a leader that is stopped by SIGTERM. The answer to a transfer is true.

Other checkers judge the whole run for lost and early messages. This one judges only what a transfer promises.
"""

from chaos.history.bounds import Bounds
from chaos.history.event import Fault, HandedOver, Led, Transferred
from chaos.history.history import History
from chaos.history.repeats import repeats
from chaos.history.verdict import Verdict, percentiles


def check_transfers(history: History, bounds: Bounds) -> Verdict:
    """Check each transfer:

    - it ends at the node that was asked for, at least one term later;
    - no message is handed over in both terms while its first lease runs;
    - the pause between the last hand-over of the old term and the first one after it is within its bound.
    """
    faults: list[str] = []
    gaps: list[float] = []
    transfers = history.of(Transferred)
    by_term: dict[int, list[int]] = {}
    for event in history.of(HandedOver):
        by_term.setdefault(event.term, []).append(event.handed_over_ms)
    for transfer in transfers:
        name = f"transfer of term {transfer.term_before} from {transfer.source} to {transfer.asked or 'the best'}"
        if transfer.term_after <= transfer.term_before:
            faults.append(f"{name}: term {transfer.term_after} afterwards")
        if transfer.asked and transfer.asked != transfer.target:
            faults.append(f"{name}: {transfer.target} leads")
        if transfer.repeated:
            faults.append(f"{name}: the new leader counted {transfer.repeated} repeats")
        later = [min(times) for term, times in by_term.items() if term > transfer.term_before]
        if later and transfer.term_before in by_term:
            gaps.append(min(later) - max(by_term[transfer.term_before]))
            if bounds.gap_ms is not None and gaps[-1] > bounds.gap_ms:
                faults.append(f"{name}: no hand-over for {gaps[-1]:.0f} ms, the bound is {bounds.gap_ms}")
    stopped = _stopped_terms(history)
    repeats = _repeats(history, bounds, {transfer.term_before for transfer in transfers} | stopped)
    faults += [f"message {number}: handed over in term {term} and again after the transfer" for number, term in repeats]
    gap = percentiles(gaps)
    if gaps and bounds.gap_p99_ms is not None and gap["p99"] > bounds.gap_p99_ms:
        faults.append(f"no hand-over for {gap['p99']:.0f} ms (p99 of {len(gaps)}), the bound is {bounds.gap_p99_ms}")
    figure = {
        "transfers": len(transfers),
        "stops": len(stopped),
        "repeated": len(repeats),
        "gap_ms": gap,
        "took_ms": percentiles([transfer.took_ms for transfer in transfers]),
        "said_gap_ms": percentiles([each.gap_ms for each in transfers if each.gap_ms is not None]),
        "carried": percentiles([each.in_flight_carried for each in transfers if each.in_flight_carried is not None]),
        "unaccounted": sum(each.repeated is None for each in transfers),
    }
    return Verdict("T", figure, faults)


def _stopped_terms(history: History) -> set[int]:
    """Terms whose leader got a SIGTERM."""
    terms: set[int] = set()
    term = 0
    for event in history.events:
        if isinstance(event, Led):
            term = max(term, event.term)
        elif isinstance(event, Fault) and (event.kind, event.role, event.phase) == ("stop", "leader", "begin"):
            terms.add(term)
    return terms


def _repeats(history: History, bounds: Bounds, terms: set[int]) -> list[tuple[int, int]]:
    """(number, term) of each hand-over in these terms that was repeated in a later term while its lease ran. A delivery
    that its receiver refused or gave back does not count: it has to come again."""
    return [
        (repeat.before.number, repeat.before.term)
        for repeat in repeats(history, bounds)
        if repeat.cause == "failover" and repeat.before.term in terms
    ]
