"""Where a leader's death fell in the requests that were under way.

A request is under way from its call to its answer. An operation that was answered runs on, in chunks, to its end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from chaos.history.event import Applied, ProcessEnded, Proposal, RequestAnswered, Sure
from chaos.history.history import History

BEFORE: Final = "before the proposal"
PROPOSED: Final = "after it"
COMMITTED: Final = "between commit and answer"
RUNNING: Final = "between answer and end"
PLACES: Final = (BEFORE, PROPOSED, COMMITTED, RUNNING)
#: A node was the leader if it was sure of that so shortly before its death. The simulator looks every 10 ms.
LATELY_MS: Final = 50.0

Place = tuple[str, str]
"""The kind of the request, and one of PLACES."""


def killed_requests(history: History) -> Counter[Place]:
    """How often a leader died at each place. A death counts for each request that was under way.

    `before the proposal`: that leader had not appended the request to its log. `after it`: it had, and no node had
    applied the entry. `between commit and answer`: a node had.
    """
    applied_ms: dict[int, float] = {}
    for entry in history.of(Applied):
        applied_ms.setdefault(entry.crc, entry.mono_ms)
    proposed: defaultdict[str, list[Proposal]] = defaultdict(list)
    for proposal in history.of(Proposal):
        for name in proposal.names:
            proposed[name].append(proposal)
    found: Counter[Place] = Counter()
    deaths = _deaths_of_leaders(history)
    for call in history.of(RequestAnswered):
        for death in deaths:
            if call.asked_mono_ms <= death.mono_ms < call.mono_ms:
                mine = [each for each in proposed[call.name] if _is_of(each, call, death)]
                found[_kind(call), _place(call, mine, applied_ms, death)] += 1
    return found


def _deaths_of_leaders(history: History) -> list[ProcessEnded]:
    sure_ms: dict[str, float] = {}
    found: list[ProcessEnded] = []
    for event in history.events:
        if isinstance(event, Sure):
            sure_ms[event.node] = event.mono_ms
        elif isinstance(event, ProcessEnded) and event.mono_ms - sure_ms.get(event.node, float("-inf")) <= LATELY_MS:
            found.append(event)
    return found


def _is_of(proposal: Proposal, call: RequestAnswered, death: ProcessEnded) -> bool:
    return proposal.node == death.node and call.asked_mono_ms <= proposal.mono_ms <= death.mono_ms


def _kind(call: RequestAnswered) -> str:
    return "operation" if call.kind == "running" else call.kind


def _place(call: RequestAnswered, proposals: list[Proposal], applied_ms: dict[int, float], death: ProcessEnded) -> str:
    if call.kind == "running":
        return RUNNING
    if not proposals:
        return BEFORE
    committed = any(applied_ms.get(each.crc, float("inf")) <= death.mono_ms for each in proposals)
    return COMMITTED if committed else PROPOSED
