"""Another leader follows a leader that was killed, paused or stopped, or whose clock is wrong."""

from typing import Final

from chaos.history.bounds import Bounds
from chaos.history.event import Fault, Led
from chaos.history.history import History
from chaos.history.verdict import Verdict

#: A leader's clock may be wrong by this much, s. Beyond it the others outvote the leader (docs/guarantees.md).
_RIGHT_S: Final = 0.5


def check_yields(history: History, bounds: Bounds) -> Verdict:
    """Check runs whose faults come one after the other. A fault that should end a leader's term is followed by another
    term before each of these events:

    - a fault hits the next leader;
    - the paused leader goes on;
    - the leader's clock is set right after it was off by more than _RIGHT_S.
    """
    faults: list[str] = []
    hit, term = 0, 0
    still: Fault | None = None
    for event in history.events:
        if isinstance(event, Led) and event.term > term:
            term, still = event.term, None
        elif isinstance(event, Fault) and event.role == "leader" and _ends_a_term(event):
            over = event.phase == "end" and event.kind in ("jump", "pause")
            if still is not None and (event.phase == "begin" or (over and still.node == event.node)):
                faults.append(f"{still.kind} {still.node}, the leader of term {term}: no later term followed")
                still = None
            if event.phase == "begin":
                hit, still = hit + 1, event
    if still is not None:
        faults.append(f"{still.kind} {still.node}, the leader of term {term}: no later term followed")
    return Verdict("yields", {"leaders": hit}, faults)


def _ends_a_term(fault: Fault) -> bool:
    if fault.kind == "jump":
        return abs(fault.argument("by", 0.0)) > _RIGHT_S
    return fault.kind in ("kill", "pause", "stop")
