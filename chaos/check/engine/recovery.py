"""Promise R: how soon the service recovers from each fault, and if it acknowledges messages while no fault excuses
it."""

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from chaos.history.bounds import Bounds
from chaos.history.event import HandedOver, Offered
from chaos.history.history import History
from chaos.history.verdict import Verdict, percentiles


@dataclass(frozen=True)
class Recovery:
    """Milliseconds from the begin of one fault. None: it did not happen before the history ends.

    - first_ack: an offer that was sent after the fault is acknowledged.
    - first_on_time: a message that is due after the fault is received on time.
    - new_term: a consumer receives a delivery of a term above all earlier ones. None if the fault ends no term.
    """

    fault: str
    first_ack_ms: float | None
    first_on_time_ms: float | None
    new_term_ms: float | None


def recoveries(history: History, bounds: Bounds) -> list[Recovery]:
    """How soon the service recovered from each fault, in the order of the faults."""
    acks = np.array(sorted((each.sent_mono_ms, each.mono_ms) for each in history.acknowledged().values())).reshape(
        -1, 2
    )
    soonest = np.minimum.accumulate(acks[::-1, 1])[::-1]  # by offer: the first acknowledgement of it or a later one
    received = history.of(HandedOver)
    on_time = [event for event in received if event.wall_ms - event.asked_due_ms <= bounds.on_time_ms]
    came, due = (np.array([getattr(each, name) for each in on_time]) for name in ("mono_ms", "asked_due_ms"))
    received_ms = np.array([event.mono_ms for event in received])
    terms = np.maximum.accumulate(np.array([event.term for event in received], np.int64))
    rows = []
    for fault in history.faults():
        begin = fault.mono_ms
        seen = int(np.searchsorted(received_ms, begin, "right"))
        next_term = int(np.searchsorted(terms, terms[seen - 1] if seen else 0, "right"))
        since = int(np.searchsorted(came, begin, "right"))
        fresh = np.flatnonzero(due[since:] > fault.wall_ms)[:1] + since
        rows.append(
            Recovery(
                fault=f"{fault.kind} {fault.node} ({fault.role})",
                first_ack_ms=_after(soonest, int(np.searchsorted(acks[:, 0], begin, "right")), begin),
                first_on_time_ms=_after(came, int(fresh[0]), begin) if len(fresh) else None,
                new_term_ms=_after(received_ms, next_term, begin),
            )
        )
    return rows


def _after(moments_ms: npt.NDArray[np.float64], place: int, begin_ms: float) -> float | None:
    """The milliseconds from the begin of a fault to the moment `moments_ms[place]`. None if `moments_ms` is shorter."""
    return float(moments_ms[place]) - begin_ms if place < len(moments_ms) else None


def acknowledged_share(history: History, bounds: Bounds) -> tuple[int, int]:
    """(acknowledged, offered): counts of the messages that were offered outside the fault windows. A message that may
    still have been in flight when a window began is left out."""
    windows = bounds.fault_windows(history)
    calm = [
        event.number
        for event in history.of(Offered)
        if not windows.touch(event.mono_ms, event.mono_ms + bounds.in_flight_ms)
    ]
    acknowledged = history.acknowledged()
    return sum(number in acknowledged for number in calm), len(calm)


def _wrong(row: Recovery, bounds: Bounds) -> list[str]:
    """One line for each recovery that did not come, or came later than the bound."""
    wrong = []
    for name, value in (("acknowledgement", row.first_ack_ms), ("on-time hand-over", row.first_on_time_ms)):
        if value is None:
            wrong.append(f"{row.fault}: no {name} after it")
        elif bounds.recovery_ms is not None and value > bounds.recovery_ms:
            wrong.append(f"{row.fault}: first {name} after {value:.0f} ms, the bound is {bounds.recovery_ms}")
    return wrong


def check_recovery(history: History, bounds: Bounds) -> Verdict:
    """Check promise R: the service recovers from each fault. Outside the fault windows it acknowledges at least the
    share `bounds.acknowledged_share` of the offers."""
    rows = recoveries(history, bounds)
    acknowledged, offered = acknowledged_share(history, bounds)
    windows = bounds.fault_windows(history)
    last_offer_ms = max((event.mono_ms for event in history.of(Offered)), default=0.0)
    judged = [  # a fault whose window is not over at the last offer is not judged
        row
        for row, fault in zip(rows, history.faults(), strict=True)
        if max(windows.end_of(fault.mono_ms), fault.mono_ms + bounds.window_ms) <= last_offer_ms
    ]
    faults = [wrong for row in judged for wrong in _wrong(row, bounds)]
    if acknowledged < bounds.acknowledged_share * offered:
        faults.append(f"{acknowledged} of {offered} messages offered outside the fault windows were acknowledged")
    figure: dict[str, object] = {
        "faults": len(rows),
        "judged": len(judged),
        "calm_offers": offered,
        "acknowledged_share": round(acknowledged / offered, 4) if offered else None,
    }
    for name in ("first_ack_ms", "first_on_time_ms", "new_term_ms"):
        figure[name] = percentiles([value for row in rows if (value := asdict(row)[name]) is not None])
    return Verdict("R", figure, faults)
