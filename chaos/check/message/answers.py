"""Promise `answers`: the answers that clients get are true.

Each answer is compared with what receivers and consumers saw and, in the simulator, with what nodes recorded. A certain
answer has to be true. An answer "unknown" needs a reason.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from chaos.check.message.sums import counts, sums
from chaos.history.bounds import Bounds
from chaos.history.event import (
    Accounted,
    Acked,
    Cancelled,
    Counted,
    Extended,
    Fault,
    Kept,
    Looked,
    Nacked,
    Pulled,
    Redriven,
    Rescheduled,
    Summed,
    Transferred,
)
from chaos.history.history import History
from chaos.history.truth import Truth
from chaos.history.verdict import Verdict
from storage.catalog.doubt import CLOCKS_MS

#: A GET says when each hand-over was made, to within ROUND_MS. For a strict message it says the planned moment in the
#: Lease: the hand-over may begin up to PLANNED_MS later, never before.
ROUND_MS: Final = 5
PLANNED_MS: Final = 5_000
#: A drift fault may make a leader's clock run 2% wrong. Each look at the other nodes' clocks then sets it back by this
#: much (node/upkeep/housekeeping.py).
SET_BACK_MS: Final = 10
#: A drift of this size or more makes that happen. Plans have 400 and 20,000 ppm.
FAST_PPM: Final = 10_000
#: A hand-over may still begin for a pull this long after the pull's client recorded that its outcome is unknown.
LATE_MS: Final = 3_000
#: Causes of a repeat that no client asked for.
UNASKED: Final = ("failover", "after_lease")


def check_answers(history: History, bounds: Bounds) -> Verdict:
    """Check the answers to cancels, GETs, nacks, acks, redrives, pulls, requests with a key that exists, and questions
    to the ledger. Also check that leases hold across leaders, and that transfers repeated no more than they said."""
    truth = Truth(history, bounds)
    faults = [fault for check in _CHECKS for fault in check(truth)]
    counted = Counter(type(event).__name__.lower() for event in history.events if isinstance(event, _ANSWERS))
    doubts = sum(event.prior == "unknown" for event in history.of(Cancelled))
    whole = sum(account.complete for account in history.of(Accounted))
    figure = {**dict(sorted(counted.items())), "whole": whole, "doubts": doubts, "wrong": len(faults)}
    return Verdict("answers", figure, faults)


_ANSWERS: Final = (
    Accounted,
    Acked,
    Cancelled,
    Counted,
    Extended,
    Nacked,
    Kept,
    Looked,
    Pulled,
    Redriven,
    Rescheduled,
    Summed,
    Transferred,
)


def _cancels(truth: Truth) -> Iterable[str]:
    """Check `attempts_made` in the answers to cancels, and `prior`, which says if it counts all deliveries:

    - with `none` no delivery was received, and with `known` at most `attempts_made`;
    - with `known` at least `attempts_made` pushes were begun;
    - in a strict topic `unknown` needs an attempt on record;
    - `unknown` needs a leader that died since the message came, or a push that was planned and not sent.
    """
    for cancel in truth.history.all_cancels():
        if cancel.outcome != "cancelled":
            continue
        events = truth.hand_overs.get(cancel.number, ())
        before = [event for event in events if event.by_receipt or event.began_ms <= cancel.wall_ms]
        received = len({(event.term, event.attempt) for event in before})
        told = f"message {cancel.number}: cancel said {cancel.attempts_made} before ({cancel.prior})"
        known = cancel.prior == "known" and truth.keeps_doubt(cancel.number)
        if received and (cancel.prior == "none" or (known and received > cancel.attempts_made)):
            yield f"{told}, {received} received"
        pushed = truth.pushed(cancel.number)
        begun = truth.begun_before(cancel.message_id, cancel.mono_ms)
        if pushed and begun is not None and cancel.prior == "known" and cancel.attempts_made > begun:
            yield f"{told}, {begun} begun"
        if cancel.prior == "unknown":
            if truth.is_strict(cancel.number) and not cancel.attempts_made:
                yield f"{told}, and it is strict"
            unsent = pushed and begun is not None and begun < cancel.attempts_made
            if not unsent and truth.nobody_died(cancel.number, cancel):
                yield f"{told}, and no leader died since it came"


def _looks(truth: Truth) -> Iterable[str]:
    """Check that the hand-overs in an answer to GET happened: at that time, by that node, with that lateness. For a
    strict message, no attempt that was received may be missing."""
    drifts = [fault.argument("ppm", FAST_PPM) for fault in truth.history.of(Fault) if fault.kind == "drift"]
    round_ms = ROUND_MS + (SET_BACK_MS if any(abs(ppm) >= FAST_PPM for ppm in drifts) else 0)
    for look in truth.history.of(Looked):
        told = f"message {look.number}: GET at {look.wall_ms} said"
        if look.handed_over_ms is None and look.lateness_ms is not None:
            yield f"{told} lateness {look.lateness_ms}, and no hand-over"
        # The clock of a later leader may be behind that of the leader that got the due time.
        terms = {term for _, _, _, term, _ in look.history if term}
        early_ms = CLOCKS_MS if len(terms) > 1 else 1
        if truth.bounds.clocks_right and look.lateness_ms is not None and look.lateness_ms < -early_ms:
            yield f"{told} lateness {look.lateness_ms}"
        for event, at_ms, node, term, attempt in look.history:
            if event == "leased" and at_ms is not None:
                begun = truth.begun.get((look.message_id, term, attempt))
                name = f"handed over at {at_ms} by {node} as term {term}, attempt {attempt}"
                seen_ms = begun.at_ms if begun else truth.handed_over_ms((look.number, term, attempt))
                if begun is None and truth.tells_begun and truth.pushed(look.number):
                    yield f"{told} {name}, and it was not"
                elif begun and node and node != begun.node:
                    yield f"{told} {name}: it was by {begun.node}"
                elif seen_ms is not None and not -round_ms < seen_ms - at_ms < PLANNED_MS:
                    yield f"{told} {name}: it was at {seen_ms}"
        if truth.is_strict(look.number) and look.message_id not in truth.redriven:
            asked_ms = look.asked_wall_ms
            attempts = [each.attempt for each in truth.hand_overs.get(look.number, ()) if each.wall_ms < asked_ms]
            if attempts and max(attempts) > look.attempt:
                yield f"{told} attempt {look.attempt}, and attempt {max(attempts)} of a strict message was received"


def _given_back(truth: Truth) -> Iterable[str]:
    """Check that a nack took effect exactly if its answer says so."""
    if not truth.tells_settled:
        return
    for nack in truth.history.of(Nacked):
        made = (nack.message_id, nack.term, nack.attempt) in truth.nacked
        told = f"message {nack.number}: nack of term {nack.term}, attempt {nack.attempt} said {nack.result}"
        if nack.result in ("stale", "refused", "invalid") and made:
            yield f"{told}, and it was given back"
        elif nack.result == "nacked" and not made:
            yield f"{told}, and it was not given back"


def _acks(truth: Truth) -> Iterable[str]:
    """Check that an ack with the answer `acked` is on record. An ack that was refused each time has no effect."""
    if not truth.tells_settled:
        return
    several: dict[tuple[str, int, int], list[Acked]] = defaultdict(list)
    for ack in truth.history.of(Acked):
        several[ack.message_id, ack.term, ack.attempt].append(ack)
    for name, acks in several.items():
        results = {ack.result for ack in acks}
        told = f"message {acks[0].number}: acks of term {name[1]}, attempt {name[2]} said {', '.join(sorted(results))}"
        if "acked" in results and name not in truth.delivered:
            yield f"{told}, and it was not delivered by it"
        elif not results & {"acked", "unknown"} and name in truth.delivered:
            yield f"{told}, and it was delivered by it"


def _redrives(truth: Truth) -> Iterable[str]:
    """Check that a redrive changed as many messages as it says. `done`: exactly as many. `refused`: none. Changes that
    an earlier redrive of unknown outcome proposed may happen meanwhile."""
    if not truth.tells_settled:
        return
    asked = truth.history.of(Redriven)
    next_ms = [*(later.asked_mono_ms for later in asked[1:]), float("inf")][: len(asked)]
    unknown_term = -1
    for redrive, until_ms in zip(asked, next_ms, strict=True):
        terms = truth.redriven_between(redrive.asked_mono_ms, until_ms)
        moved, own = len(terms), sum(term > unknown_term for term in terms)
        told = f"redrive at {redrive.asked_mono_ms:.0f} ms said {redrive.outcome} {redrive.detail}"
        if redrive.outcome == "refused" and own:
            yield f"{told}, and {own} were redriven"
        elif moved < redrive.changed or (redrive.outcome == "done" and own > redrive.changed):
            yield f"{told}, {redrive.changed} changed, and {moved} were redriven"
        if redrive.outcome == "unknown":
            unknown_term = max(unknown_term, truth.newest_term(redrive.mono_ms))


def _pulls(truth: Truth) -> Iterable[str]:
    """Check each hand-over by a pull that no consumer received. It needs a pull of its topic, under way at that time,
    whose client got no certain answer."""
    unsure: dict[str, list[Pulled]] = defaultdict(list)
    for pull in truth.history.of(Pulled):
        if pull.outcome == "unknown":
            unsure[pull.topic].append(pull)
    received = {(event.message_id, event.term, event.attempt) for event in truth.received}
    for name, begun in truth.begun.items():
        number = truth.number_of.get(name[0])
        if begun.pushed or name in received or number is None or not truth.topic(number):
            continue
        pulls = unsure[truth.topic(number)]
        if not any(pull.asked_mono_ms <= begun.mono_ms <= pull.mono_ms + LATE_MS for pull in pulls):
            yield f"message {number}: leased as term {name[1]}, attempt {name[2]} to a pull that was told of nothing"


def _kept(truth: Truth) -> Iterable[str]:
    """Check the due time in the answer to a request with the key of an existing message. That message is due no earlier
    than its last reschedule says. The reschedule was answered before the request, and no other reschedule may have
    taken effect since."""
    moves: dict[int, list[Rescheduled]] = defaultdict(list)
    for move in truth.history.of(Rescheduled):
        if move.outcome != "refused":
            moves[move.number].append(move)
    for kept in truth.history.of(Kept):
        several = moves[kept.number]
        before = [move for move in several if move.outcome == "moved" and move.wall_ms < kept.asked_wall_ms]
        last = max(before, key=lambda move: move.wall_ms, default=None)
        if last is None or any(move is not last and move.wall_ms >= last.asked_wall_ms for move in several):
            continue
        if kept.due_ms < last.due_ms:
            yield f"message {kept.number}: kept, due {kept.due_ms}, and it was moved to {last.due_ms}"


def _leases(truth: Truth) -> Iterable[str]:
    """Check leases across a change of leader, where all clocks are right. No strict message comes again in a later term
    before its lease has run. After a transfer no message comes again so early, except as many as `repeated` in the
    answer to the transfer says."""
    again: Counter[int] = Counter()
    for repeat, early_ms in truth.early_repeats():
        before, after = repeat.before, repeat.after
        transfer = truth.transfer_to.get(after.term)
        given = transfer is not None and transfer.term_before == before.term
        if given:
            again[after.term] += 1
        elif truth.is_strict(before.number):
            yield f"message {before.number}: strict, again in term {after.term}, {early_ms} ms before its lease had run"
    for transfer in truth.history.of(Transferred):
        if transfer.repeated is not None and again[transfer.term_after] > transfer.repeated:
            yield (
                f"transfer to {transfer.target} in term {transfer.term_after}: said {transfer.repeated} repeated, "
                f"{again[transfer.term_after]} came again before their leases had run"
            )


def _ledger(truth: Truth) -> Iterable[str]:
    """Check that the ledger knows each hand-over that was received before the question, or says that an account is
    missing. No received message is lost. A hand-over that failed by its node's account is retried, whatever its
    receiver answered."""
    again: dict[int, list[float]] = defaultdict(list)
    for repeat in truth.repeats:
        if repeat.cause in UNASKED and not repeat.failed:
            again[repeat.before.number].append(repeat.after.mono_ms)
    for account in truth.history.of(Accounted):
        names = truth.received_before(account.number, account.asked_mono_ms)
        told = f"message {account.number}: the ledger said {account.kind}, {account.hand_overs} hand-overs"
        once = account.kind == "delivered_once" and not account.old
        repeated = any(each < account.asked_mono_ms for each in again[account.number])
        if (account.kind == "lost" and names) or (once and repeated):
            yield f"{told}, {len(names)} received"
        elif account.complete and account.hand_overs < len(names):
            yield f"{told}, complete, {len(names)} received"


_CHECKS: Final[tuple[Callable[[Truth], Iterable[str]], ...]] = (
    _cancels,
    _looks,
    _given_back,
    _acks,
    _redrives,
    _pulls,
    _kept,
    _leases,
    _ledger,
    counts,
    sums,
)
