"""The stories: at least one for each class, flag and cause of the ledger, in records as a node writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from bench.dataset.planted_case import AUDITED, HOOKS, LEASE_MS, ORDERS, PAUSED, RESUMED, STRICT, Messages, Plan
from ledger.columns import Cause, Flag, LateCause, Lost, MessageClass
from storage.file.delivery_file import whole_from_ms
from storage.format.array import I64
from storage.format.states import CANCELLED, DEAD, DELIVERED, EXPIRED, RELEASED
from storage.record.delivery_record import DELIVERED as DONE
from storage.record.delivery_record import END, FAILED, GIVEN_BACK, LATE

ONCE, MORE = MessageClass.DELIVERED_ONCE, MessageClass.DELIVERED_MORE
NACKED: Final = 1006
RESCHEDULED, REDRIVEN, RESENT = 2000, 2001, 2002
RETRY_MS: Final = 20_000
UNKNOWN: Final = Flag.UNKNOWN_OUTCOME


def _calm(plan: Plan, case: str, count: int, topic: int = ORDERS) -> Messages:
    return plan.messages(case, plan.calm(count), topic)


# -- classes


def dead(plan: Plan, count: int) -> None:
    """Messages whose receiver refused them, with one attempt allowed."""
    messages = _calm(plan, "dead", count, HOOKS)
    made = plan.hand_over(messages, 1, messages.due_ms + 3)
    plan.tell(messages, made, END, made.at_ms + 30, outcome=FAILED, code=500)
    plan.end(messages, DEAD, made.at_ms + 31, made, code=500)
    plan.expect(messages, MessageClass.DEAD)


def dead_after_a_retry(plan: Plan, count: int) -> None:
    """Messages that the receiver refused at the due time and again at the retry."""
    messages = _calm(plan, "dead_after_a_retry", count, HOOKS)
    _fail(plan, messages, 1, messages.due_ms + 3)
    made = plan.hand_over(messages, 2, messages.due_ms + RETRY_MS + 4)
    plan.tell(messages, made, END, made.at_ms + 30, outcome=FAILED, code=503)
    plan.end(messages, DEAD, made.at_ms + 31, made, code=503)
    messages.retries = 1
    plan.expect(messages, MessageClass.DEAD, Flag.RETRIED)


def cancelled(plan: Plan, count: int) -> None:
    """Messages that were cancelled before they were due."""
    messages = _calm(plan, "cancelled", count)
    plan.end(messages, CANCELLED, messages.due_ms - 2_000)
    plan.expect(messages, MessageClass.CANCELLED)


def cancelled_unanswered(plan: Plan, count: int) -> None:
    """Messages whose consumer let the lease end, and that were then cancelled."""
    messages = _calm(plan, "cancelled_unanswered", count)
    made = plan.hand_over(messages, 1, messages.due_ms + 3)
    plan.end(messages, CANCELLED, made.at_ms + LEASE_MS + 500, made)
    plan.expect(messages, MessageClass.CANCELLED, UNKNOWN)


def expired(plan: Plan, count: int) -> None:
    """Messages that no consumer pulled in time."""
    messages = _calm(plan, "expired", count)
    plan.end(messages, EXPIRED, messages.due_ms + 60_000)
    plan.expect(messages, MessageClass.EXPIRED)


def overdue(plan: Plan, count: int) -> None:
    """Messages that no consumer has pulled so far."""
    plan.expect(_calm(plan, "overdue", count), MessageClass.PENDING, Flag.OVERDUE)


def paused(plan: Plan, count: int) -> None:
    """Messages of a paused topic, which wait for the end of the pause."""
    plan.expect(_calm(plan, "paused", count, PAUSED), MessageClass.PENDING, Flag.OVERDUE, LateCause.PAUSE)


def resumed(plan: Plan, count: int) -> None:
    """Messages that were due while their topic was paused, and delivered when it was resumed."""
    due_ms = plan.resumed_ms - plan.chance.integers(500, 2_000, count)
    messages = plan.messages("resumed", due_ms, RESUMED)
    at_ms = np.full(count, plan.resumed_ms + 5)
    _late(plan, messages, at_ms, at_ms // 1000, LateCause.PAUSE)


def open_again(plan: Plan, count: int) -> None:
    """Messages handed over and never acked. Their lease has ended, and no second hand-over was made yet."""
    messages = _calm(plan, "open_again", count)
    plan.hand_over(messages, 1, messages.due_ms + 3)
    plan.expect(messages, MessageClass.PENDING, Flag.OVERDUE | UNKNOWN)


def no_trace(plan: Plan, count: int) -> None:
    """Messages settled as delivered, without any node's start of a hand-over."""
    messages = _calm(plan, "no_trace", count)
    made = plan.hand_over(messages, 1, messages.due_ms + 3, started=False)
    plan.end(messages, DELIVERED, made.at_ms + 20, made)
    plan.expect(messages, MessageClass.LOST, Flag.UNTRACED, lost=Lost.NO_TRACE)


def never_received(plan: Plan, count: int) -> None:
    """Messages delivered by the records, and missing in all receipts. They are lost only if receipts are given."""
    messages = _calm(plan, "never_received", count, AUDITED)
    plan.deliver(messages, plan.hand_over(messages, 1, messages.due_ms + 3))
    plan.expect(messages, MessageClass.LOST, Flag.NOT_RECEIVED, lost=Lost.NEVER_RECEIVED)


def received(plan: Plan, count: int) -> None:
    """Messages delivered, with a receipt of the consumer."""
    messages = _calm(plan, "received", count, AUDITED)
    plan.deliver(messages, plan.hand_over(messages, 1, messages.due_ms + 3))
    plan.expect(messages, ONCE)


# -- causes of duplicates


def lease_ended(plan: Plan, count: int) -> None:
    """Messages whose consumer pulled them and never answered."""
    _again(plan, _calm(plan, "lease_ended", count), Cause.LEASE_ENDED)


def unknown_outcome(plan: Plan, count: int) -> None:
    """Messages pushed by a leader that died before the answer came."""
    _again(plan, _calm(plan, "unknown_outcome", count, HOOKS), Cause.UNKNOWN_OUTCOME)


def _again(plan: Plan, messages: Messages, cause: Cause) -> None:
    first = plan.hand_over(messages, 1, messages.due_ms + 3)
    second = plan.hand_over(messages, 2, first.at_ms + LEASE_MS + 100)
    plan.deliver(messages, second)
    plan.repeat(messages, cause, first, second)
    plan.expect(messages, MORE, UNKNOWN)


def acked_late(plan: Plan, count: int) -> None:
    """Messages of a slow consumer, whose ack comes after the next hand-over."""
    messages = _calm(plan, "acked_late", count)
    first = plan.hand_over(messages, 1, messages.due_ms + 3)
    second = plan.hand_over(messages, 2, first.at_ms + LEASE_MS + 100)
    plan.tell(messages, first, END, second.at_ms + 700, outcome=LATE)
    plan.deliver(messages, second, 2_000)
    plan.repeat(messages, Cause.ACKED_LATE, first, second)
    plan.expect(messages, MORE)


def acked_in_passing(plan: Plan, count: int) -> None:
    """Messages handed over again while the ack was on its way into the log. The ack holds, the second Lease does
    not."""
    messages = _calm(plan, "acked_in_passing", count)
    first = plan.hand_over(messages, 1, messages.due_ms + 3)
    second = plan.hand_over(messages, 2, first.at_ms + LEASE_MS + 5, leased=False)
    plan.deliver(messages, first, LEASE_MS + 8)
    plan.tell(messages, second, END, second.at_ms + 400, outcome=LATE)
    plan.repeat(messages, Cause.ACKED_LATE, first, second)
    plan.expect(messages, MORE)


def unexplained(plan: Plan, count: int) -> None:
    """Messages handed over twice while the lease ran, which must not happen."""
    messages = _calm(plan, "unexplained", count)
    first = plan.hand_over(messages, 1, messages.due_ms + 3)
    second = plan.hand_over(messages, 2, first.at_ms + 1_000)
    plan.deliver(messages, second)
    plan.repeat(messages, Cause.UNEXPLAINED, first, second)
    plan.expect(messages, MORE, UNKNOWN)


def nodes_disagree(plan: Plan, count: int) -> None:
    """Messages of which two nodes both recorded the same hand-over."""
    messages = _calm(plan, "nodes_disagree", count)
    made = plan.hand_over(messages, 1, messages.due_ms + 3)
    other = plan.hand_over(messages, 1, messages.due_ms + 40, leased=False, node=made.node % 3 + 1)
    plan.deliver(messages, made, 60)
    plan.repeat(messages, Cause.UNEXPLAINED, made, other)
    plan.expect(messages, MORE, Flag.NODES_DISAGREE)


def scheduled_twice(plan: Plan, count: int) -> None:
    """Messages whose producer got no answer and scheduled them again, without a key."""
    due_ms = plan.calm(count)
    first = plan.messages("scheduled_once", due_ms)
    made = plan.hand_over(first, 1, due_ms + 3)
    plan.deliver(first, made)
    plan.expect(first, ONCE)
    second = plan.messages("scheduled_twice", due_ms, created_ms=first.created_ms + 2_000, body=first.body)
    again = plan.hand_over(second, 1, due_ms + 4)
    plan.deliver(second, again)
    plan.repeat(second, Cause.SCHEDULED_TWICE, made, again, other=first.unit)
    plan.expect(second, ONCE, Flag.SCHEDULED_TWICE)


def failover(plan: Plan, count: int) -> None:
    """Messages handed over in the last 45 ms of a leader that was killed. Their Lease was lost with it."""
    change = np.arange(count) % (len(plan.terms.number) - 1)
    killed_ms = plan.terms.ended_ms[change]
    at_ms = killed_ms - 45 + plan.chance.integers(0, 45, count)
    messages = plan.messages("failover", at_ms - 2)
    first = plan.hand_over(messages, 1, at_ms, leased=False)
    second = plan.hand_over(messages, 1, plan.terms.begun_ms[change + 1] + plan.chance.integers(5, 400, count))
    plan.deliver(messages, second)
    plan.repeat(messages, Cause.FAILOVER, first, second)
    plan.expect(messages, MORE, UNKNOWN)


# -- flags


def early(plan: Plan, count: int) -> None:
    """Messages handed over before their due time."""
    messages = _calm(plan, "early", count)
    plan.deliver(messages, plan.hand_over(messages, 1, messages.due_ms - 7))
    plan.expect(messages, ONCE, Flag.EARLY)


def _late(plan: Plan, messages: Messages, at_ms: I64, tick: I64, cause: LateCause) -> None:
    plan.deliver(messages, plan.hand_over(messages, 1, at_ms, tick=tick))
    plan.expect(messages, ONCE, Flag.LATE, cause)


def waiting_for_consumer(plan: Plan, count: int) -> None:
    """Messages dispatched in time, and pulled five seconds late."""
    messages = _calm(plan, "waiting_for_consumer", count)
    _late(plan, messages, messages.due_ms + 5_000, messages.due_ms // 1000 + 4, LateCause.WAITING_FOR_CONSUMER)


def waiting_for_receiver(plan: Plan, count: int) -> None:
    """Messages dispatched in time, and pushed four seconds late because their receiver was busy with others."""
    messages = _calm(plan, "waiting_for_receiver", count, HOOKS)
    _late(plan, messages, messages.due_ms + 4_000, messages.due_ms // 1000 + 3, LateCause.WAITING_FOR_RECEIVER)


def dispatched_late(plan: Plan, count: int) -> None:
    """Messages that the leader dispatched late."""
    messages = _calm(plan, "dispatched_late", count)
    _late(plan, messages, messages.due_ms + 300, messages.due_ms // 1000, LateCause.DISPATCH)


def scheduled_late(plan: Plan, count: int) -> None:
    """Messages scheduled for a time in the past."""
    due_ms = plan.calm(count)
    messages = plan.messages("scheduled_late", due_ms, created_ms=due_ms + 500)
    _late(plan, messages, due_ms + 503, due_ms // 1000, LateCause.SCHEDULED_LATE)


def no_leader(plan: Plan, count: int) -> None:
    """Messages due between two leaders."""
    change = np.arange(count) % (len(plan.terms.number) - 1)
    due_ms = plan.terms.ended_ms[change] + plan.chance.integers(50, 500, count)
    messages = plan.messages("no_leader", due_ms)
    begun_ms = plan.terms.begun_ms[change + 1]
    _late(plan, messages, begun_ms + plan.chance.integers(5, 400, count), begun_ms // 1000, LateCause.NO_LEADER)


def _fail(plan: Plan, messages: Messages, attempt: int, at_ms: I64, *, nack: bool = False) -> None:
    """Hand the messages over, let the receiver or consumer refuse them, and move them to their next attempt."""
    made = plan.hand_over(messages, attempt, at_ms)
    outcome, code = (GIVEN_BACK, NACKED) if nack else (FAILED, 500)
    plan.tell(messages, made, END, at_ms + 30, outcome=outcome, code=code)
    plan.move(messages, made, at_ms + 31, messages.due_ms + attempt * RETRY_MS, code)


def retried(plan: Plan, count: int) -> None:
    """Messages that the receiver refused twice, then took."""
    messages = _calm(plan, "retried", count, HOOKS)
    _fail(plan, messages, 1, messages.due_ms + 3)
    _fail(plan, messages, 2, messages.due_ms + RETRY_MS + 3)
    plan.deliver(messages, plan.hand_over(messages, 3, messages.due_ms + 2 * RETRY_MS + 3))
    messages.retries = 2
    plan.expect(messages, ONCE, Flag.RETRIED)


def given_back(plan: Plan, count: int) -> None:
    """Messages that the consumer gave back, then took."""
    messages = _calm(plan, "given_back", count)
    _fail(plan, messages, 1, messages.due_ms + 3, nack=True)
    plan.deliver(messages, plan.hand_over(messages, 2, messages.due_ms + RETRY_MS + 3))
    messages.retries = 1
    plan.expect(messages, ONCE, Flag.RETRIED)


def rescheduled(plan: Plan, count: int) -> None:
    """Messages that the producer moved before they were due."""
    messages = _calm(plan, "rescheduled", count)
    due_ms = messages.due_ms + 15_000
    at_ms = messages.due_ms - 1_000
    messages.due_ms = due_ms
    plan.move(messages, None, at_ms, due_ms, RESCHEDULED)
    plan.deliver(messages, plan.hand_over(messages, 1, due_ms + 3))
    plan.expect(messages, ONCE, Flag.RESCHEDULED)


def redriven(plan: Plan, count: int) -> None:
    """Dead letters that were redriven."""
    messages = _calm(plan, "redriven", count, HOOKS)
    made = plan.hand_over(messages, 1, messages.due_ms + 3)
    plan.tell(messages, made, END, made.at_ms + 30, outcome=FAILED, code=500)
    plan.end(messages, DEAD, made.at_ms + 31, made, code=500)
    due_ms = messages.due_ms + 30_000
    messages.due_ms = due_ms
    plan.move(messages, made, due_ms - 100, due_ms, REDRIVEN)
    plan.deliver(messages, plan.hand_over(messages, 2, due_ms + 3))
    messages.retries = 1
    plan.expect(messages, ONCE, Flag.RETRIED | Flag.REDRIVEN)


def resent(plan: Plan, count: int) -> None:
    """Delivered messages that an operation made due again."""
    messages = _calm(plan, "resent", count)
    first = plan.hand_over(messages, 1, messages.due_ms + 3)
    plan.deliver(messages, first)
    due_ms = messages.due_ms + 30_000
    messages.due_ms = due_ms
    plan.move(messages, first, due_ms - 100, due_ms, RESENT)
    second = plan.hand_over(messages, 2, due_ms + 3)
    plan.deliver(messages, second)
    plan.repeat(messages, Cause.RESENT, first, second)
    plan.expect(messages, MORE, Flag.RESENT)


def after_cancel(plan: Plan, count: int) -> None:
    """Messages handed over though they were cancelled a second before. The answer to the consumer's ack says so."""
    messages = _calm(plan, "after_cancel", count)
    plan.end(messages, CANCELLED, messages.due_ms - 1_000)
    made = plan.hand_over(messages, 1, messages.due_ms + 3, leased=False)
    plan.tell(messages, made, END, made.at_ms + 50, outcome=LATE)
    plan.expect(messages, MessageClass.CANCELLED, Flag.DELIVERED_AFTER_CANCEL | Flag.DELIVERED_UNSETTLED)


def delivered_unsettled(plan: Plan, count: int) -> None:
    """Messages that the receiver took, and whose settle record was lost with the leader."""
    messages = _calm(plan, "delivered_unsettled", count, HOOKS)
    made = plan.hand_over(messages, 1, messages.due_ms + 3)
    plan.tell(messages, made, END, made.at_ms + 50, outcome=DONE, code=200)
    plan.expect(messages, MessageClass.PENDING, Flag.DELIVERED_UNSETTLED | Flag.OVERDUE)


def untraced(plan: Plan, count: int) -> None:
    """Messages whose last hand-over is in a settle record and in no account. Their first hand-over is in both."""
    messages = _calm(plan, "untraced", count)
    first = plan.hand_over(messages, 1, messages.due_ms + 3)
    second = plan.hand_over(messages, 2, first.at_ms + LEASE_MS + 100, started=False)
    plan.end(messages, DELIVERED, second.at_ms + 20, second)
    plan.expect(messages, ONCE, Flag.UNTRACED | UNKNOWN)


def strict(plan: Plan, count: int) -> None:
    """Messages leased first, then handed over."""
    messages = _calm(plan, "strict", count, STRICT)
    plan.deliver(messages, plan.hand_over(messages, 1, messages.due_ms + 2))
    plan.expect(messages, ONCE, Flag.STRICT)


def released(plan: Plan, count: int) -> None:
    """Messages leased ahead. That lease was released before any hand-over, and they were leased again and delivered."""
    messages = _calm(plan, "released", count, STRICT)
    plan.hand_over(messages, 1, messages.due_ms - 80, started=False)
    plan.settle(messages.place, RELEASED, messages.due_ms - 60)
    plan.deliver(messages, plan.hand_over(messages, 1, messages.due_ms + 2))
    plan.expect(messages, ONCE, Flag.STRICT)


def records_missing(plan: Plan, count: int) -> None:
    """Messages whose account was lost in a power cut. They are unknown, not lost, and another hand-over cannot be
    excluded.

    The records before and after the lost ones bound the gap. No other message is open at that moment, so the gap hides
    nothing of another one.
    """
    at_ms = whole_from_ms(int(plan.terms.begun_ms[0])) + 500 + plan.chance.integers(0, 200, count)
    messages = plan.messages("records_missing", at_ms - 2)
    made = plan.hand_over(messages, 1, at_ms, lost=True)
    plan.deliver(messages, made)
    plan.expect(messages, MessageClass.DELIVERED, Flag.RECORDS_MISSING)


STORIES: Final[tuple[Callable[[Plan, int], None], ...]] = (
    dead, dead_after_a_retry, cancelled, cancelled_unanswered, expired, overdue, paused, resumed, open_again,
    no_trace, never_received, received, lease_ended, unknown_outcome, acked_late, acked_in_passing, unexplained,
    nodes_disagree, scheduled_twice, failover, early, waiting_for_consumer, waiting_for_receiver, dispatched_late,
    scheduled_late, no_leader, retried, given_back, rescheduled, redriven, resent, after_cancel, delivered_unsettled,
    untraced, strict, released, records_missing,
)  # fmt: skip
"""The stories among plain messages. The stories at the ends of time (pending, in_flight, outside_window), and the
messages in no file (not_found), are added by make.py."""
