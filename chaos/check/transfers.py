"""T: leadership moved on purpose is not noticed: nothing comes twice, and hand-overs pause for a moment only.

That nothing is lost or early is what the other checkers say of the whole run; here is what only a transfer promises.
"""

import itertools

from chaos.bounds import Bounds
from chaos.event import HandedOver, Transferred
from chaos.history import History
from chaos.verdict import Verdict, percentiles


def check_transfers(history: History, bounds: Bounds) -> Verdict:
    """Each transfer ended where it was asked to, one term or more later; no message was handed over in both terms while
    its first lease ran; the pause between the last hand-over of the old term and the first after it is in its bound.
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
        later = [min(times) for term, times in by_term.items() if term > transfer.term_before]
        if later and transfer.term_before in by_term:
            gaps.append(min(later) - max(by_term[transfer.term_before]))
            if bounds.gap_ms is not None and gaps[-1] > bounds.gap_ms:
                faults.append(f"{name}: no hand-over for {gaps[-1]:.0f} ms, the bound is {bounds.gap_ms}")
    repeats = _repeats(history, {transfer.term_before for transfer in transfers})
    faults += [f"message {number}: handed over in term {term} and again after the transfer" for number, term in repeats]
    figure = {
        "transfers": len(transfers),
        "repeated": len(repeats),
        "gap_ms": percentiles(gaps),
        "took_ms": percentiles([transfer.took_ms for transfer in transfers]),
    }
    return Verdict("T", figure, faults)


def _repeats(history: History, terms: set[int]) -> list[tuple[int, int]]:
    """(number, term) of the hand-overs in these terms, without those refused, that were repeated in a later one while
    their lease ran.
    """
    return [
        (number, before.term)
        for number, events in history.hand_overs().items()
        for before, after in itertools.pairwise(events)
        if before.term in terms
        and after.term > before.term
        and before.taken
        and after.handed_over_ms < before.leased_until_ms
    ]
