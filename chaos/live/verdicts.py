"""The bounds and checkers of a run on real processes, and the facts to add to its history before the checkers read it.

A history of real processes has what clients saw. The nodes' own records of their pushes, from their delivery logs, are
added afterwards. A node writes its log before the first byte leaves and syncs it later (docs/guarantees.md). So a power
cut takes the last seconds of the log, and that breaks no promise. A push without its record was received, so it was
begun. The moment of its receipt stands for its begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from chaos.check.engine.alive import check_alive
from chaos.check.engine.digests import check_digests
from chaos.check.engine.recovery import check_recovery
from chaos.check.engine.started import check_started
from chaos.check.engine.terms import check_terms
from chaos.check.engine.transfers import check_transfers
from chaos.check.message.answers import check_answers
from chaos.check.message.duplicates import check_duplicates
from chaos.check.message.ids import check_ids
from chaos.check.message.keys import check_keys
from chaos.check.message.linear import check_linear
from chaos.check.message.lost import check_lost
from chaos.check.message.many_moves import check_many_moves
from chaos.check.message.operations import check_operations
from chaos.check.message.unscheduled import check_unscheduled
from chaos.check.message.whole_batches import check_whole_batches
from chaos.check.message.window import check_window
from chaos.history.bounds import Bounds, Windows
from chaos.history.event import Event, Fault, HandedOver, Led, Transferred
from chaos.history.history import History
from chaos.history.verdict import Verdict
from chaos.load.webhooks import LEASE_MORE_MS, Name, account
from chaos.plan.fault_plan import kinds_of
from chaos.plan.load_plan import Plan

#: No leader, whose clock the others bound, leases a message that is due so much later.
LEASE_AHEAD_MS: Final = 8_000
#: Two nodes' clocks may each be 500 ms off the truth, slewed (docs/guarantees.md). Every kind of fault excuses checks
#: of time, until it is over and the service has had time to come back.
BOUNDS: Final = Bounds(
    skew_ms=1_050,
    window_ms=5_000,
    on_time_ms=500,
    lasting=frozenset(kinds_of("live")),
    fault_ends_term=False,
    lease_ahead_ms=LEASE_AHEAD_MS,
)
#: Bounds for faults that come one after the other. They excuse little. The kinds named here excuse nothing: clients
#: should not notice such a fault at all, or the service has to bear it.
ONE_BY_ONE: Final = Bounds(
    excuse_nothing=frozenset({"slow", "jump", "drift", "transfer", "replace"}), lease_ahead_ms=LEASE_AHEAD_MS
)
#: The kernel keeps written files this long before it writes them out by itself: the expiry of 30 s and a round of 5 s.
KEPT_BY_KERNEL_MS: Final = 35_000
#: The longest time after a power cut for which a receiver on a busy machine reads pushes that were sent before it. Such
#: a push is of a term that was led then, and a node without power sends nothing. Seed 990119: 49 pushes were read up to
#: 3.2 s after. Seed 25, beside a load of 10: 714 up to 10 s after.
READ_LATE_MS: Final = 30_000
#: The promises of a transfer hold if no other fault is this near.
AROUND_TRANSFER_MS: Final = 1_500

Checker = Callable[[History, Bounds], Verdict]

_CHECKERS: Final[tuple[Checker, ...]] = (
    check_lost,
    check_unscheduled,
    check_window,
    check_started,
    check_duplicates,
    check_digests,
    check_terms,
    check_recovery,
    check_ids,
    check_linear,
    check_alive,
    check_answers,
    check_operations,
    check_many_moves,
    check_keys,
    check_whole_batches,
)


def judge(history: History, bounds: Bounds = BOUNDS, further: Sequence[Checker] = ()) -> list[Verdict]:
    """Return the verdicts of all checkers on this history, those of `further` checkers last."""
    moved = history if bounds.fault_ends_term else calm_transfers(history)  # one by one, no fault comes near another
    verdicts = [*(check(history, bounds) for check in _CHECKERS), check_transfers(moved, bounds)]
    return verdicts + [check(history, bounds) for check in further]


def whole(history: History, begun: Mapping[Name, tuple[str, int]], plan: Plan) -> tuple[History, int]:
    """Return the history with the nodes' records of their pushes (`begun`, from `webhooks.starts`). If a power cut took
    the record of a push, its begin is taken to be its receipt. Also return how many pushes that were."""
    history = account(history, begun, plan)
    cuts: dict[str, list[tuple[int, bool]]] = {}  # by node: begins and ends of power faults, True for a begin
    for fault in history.of(Fault):  # its end too: on a busy machine a push that was sent before is read a moment after
        if fault.kind == "power":
            cuts.setdefault(fault.node, []).append((fault.wall_ms, fault.phase == "begin"))
    terms = {led.term: led for led in reversed(history.of(Led))}
    taken = 0
    events = list(history.events)
    for place, event in enumerate(events):
        if not isinstance(event, HandedOver) or not event.pushed or event.handed_over_ms:
            continue
        led = terms.get(event.term)
        nodes = list(cuts) if led is None else [led.leader]
        if any(_took(cut, event, led) for node in nodes for cut in cuts.get(node, ())):
            taken += 1
            # The leader's clock, which made it due, may have been ahead of the receiver's. Then it shows no earlier
            # time.
            began_ms = max(event.wall_ms, event.due_ms)
            events[place] = msgspec.structs.replace(
                event,
                node=nodes[0],
                handed_over_ms=began_ms,
                leased_until_ms=began_ms + plan.push_timeout_ms + LEASE_MORE_MS,
                gives_up_ms=began_ms + plan.push_timeout_ms,
                by_receipt=True,
            )
    return History(map(_seen_begun, events)), taken


def _took(cut: tuple[int, bool], event: HandedOver, led: Led | None) -> bool:
    """True if a power fault may have taken the start of this push from its node's log. `cut` is the moment (wall_ms) of
    that fault's begin or end, with True for a begin. `led` tells when the leader of the push's term was first seen."""
    at_ms, begin = cut
    kept_ms = at_ms - event.wall_ms
    if kept_ms < 0:
        return begin and led is not None and led.wall_ms <= at_ms and kept_ms >= -READ_LATE_MS
    return kept_ms <= KEPT_BY_KERNEL_MS


def _seen_begun(event: Event) -> Event:
    """If the leader's clock puts the begin of a hand-over after its receipt, set `begun_wall_ms` to the time of the
    receipt."""
    if not isinstance(event, HandedOver) or event.handed_over_ms <= event.wall_ms:
        return event
    return msgspec.structs.replace(event, begun_wall_ms=event.wall_ms)


def calm_transfers(history: History) -> History:
    """The history without the transfers and stops that have a fault of another kind near them: it was on then, or
    within AROUND_TRANSFER_MS."""
    others: list[tuple[str, float, float]] = []
    begun: dict[tuple[str, str], list[float]] = {}
    for event in history.of(Fault):
        key = (event.kind, event.node)
        if event.phase == "begin":
            begun.setdefault(key, []).append(event.mono_ms)
        else:
            others.append((event.kind, begun[key].pop(0), event.mono_ms))
    others += [(kind, begin, float("inf")) for (kind, _), several in begun.items() for begin in several]

    def calm(at_ms: float, took_ms: float, kind: str) -> bool:
        near = Windows((begin, end) for other, begin, end in others if other != kind)
        return not near.touch(at_ms - took_ms - AROUND_TRANSFER_MS, at_ms + AROUND_TRANSFER_MS)

    def counts(event: Event) -> bool:
        if isinstance(event, Transferred):
            return calm(event.mono_ms, event.took_ms, "transfer")
        return not isinstance(event, Fault) or event.kind != "stop" or calm(event.mono_ms, 0, "stop")

    return History(filter(counts, history.events))


def broken(verdicts: Sequence[Verdict]) -> list[str]:
    """The violations of these verdicts, as lines."""
    return [verdict.describe() for verdict in verdicts if not verdict.holds]
