"""The ledger's words for people: a title and a sentence for each class, flag and cause."""

from typing import Final, NamedTuple

from reconcile.report.palette import AMBER, BLUE, GREY, INK, RED, SKY, SOFT, TEAL, VIOLET


class Said(NamedTuple):
    """How a word is written, what it means, and the colour it has wherever it is drawn."""

    title: str
    sentence: str
    colour: str = SOFT


CLASSES: Final = {
    "delivered_once": Said("Delivered once", "One hand-over, and it ended the message.", TEAL),
    "delivered_more": Said("Delivered more than once", "Ended, after hand-overs that nobody had asked for.", AMBER),
    "dead": Said("Dead", "Given up by its retry policy; it can be redriven.", VIOLET),
    "cancelled": Said("Cancelled", "A client took it back.", GREY),
    "expired": Said("Expired", "Its time to live ran out before a consumer took it.", GREY),
    "pending": Said("Pending", "Open: due later, or due again after a failure or an ended lease.", SKY),
    "in_flight": Said("In flight", "With a consumer: its lease ran when the records ended.", BLUE),
    "lost": Said(
        "Lost", "Acknowledged or settled, and no trace of a hand-over although all records cover the time.", RED
    ),
    "delivered": Said(
        "Delivered, at least once", "Ended by a hand-over; an account that may tell of another is missing.", SOFT
    ),
}

FLAGS: Final = {
    "early": Said("Early", "Handed over before the due time asked for."),
    "late": Said("Late", "First handed over well after its due time; by cause in the table below."),
    "retried": Said("Retried", "Came again after a failure or nack on record: no duplicate."),
    "delivered_after_cancel": Said("Delivered after cancel", "A hand-over began after the cancel had taken effect."),
    "unknown_outcome": Said("Outcome unknown", "What came of at least one hand-over is in no record."),
    "nodes_disagree": Said("Nodes disagree", "The nodes' copies of its records differ."),
    "outside_window": Said("Outside the window", "Due before the time that all records cover: told, not judged."),
    "records_missing": Said(
        "Records missing", "A hand-over falls, or may fall, where an account is missing: unknown, not lost."
    ),
    "untraced": Said("Untraced", "What ended it is in no node's account, though the accounts cover its time."),
    "delivered_unsettled": Said(
        "Delivered, not settled", "Handed over by one record, open by another: it may come again."
    ),
    "overdue": Said("Overdue", "Open, long due, and with no consumer."),
    "scheduled_twice": Said(
        "Scheduled twice", "Equal to a message scheduled shortly before, without a key to catch it."
    ),
    "rescheduled": Said("Rescheduled", "Moved to another due time on a client's wish."),
    "redriven": Said("Redriven", "Brought back from the dead."),
    "not_received": Said("Not received", "Handed over, and in no consumer's receipts."),
    "strict": Said("Strict topic", "Its topic hands over strictly."),
    "resent": Said("Resent", "Delivered, and made due again by an operation."),
}

LATE_CAUSES: Final = {
    "no_leader": Said("No leader", "Due while no node led; the next term handed it over.", RED),
    "waiting_for_consumer": Said("Waiting for a consumer", "Ready, and nobody pulled it.", SKY),
    "waiting_for_receiver": Said("Waiting for the receiver", "Ready, and its webhook receiver had no room.", BLUE),
    "dispatch": Said("Dispatch", "The leader was behind.", AMBER),
    "scheduled_late": Said("Scheduled late", "Scheduled or moved too near to its due time, or after it.", GREY),
    "pause": Said("Pause", "Its topic was paused for the longer part of the delay.", VIOLET),
}

CAUSES: Final = {
    "failover": Said("Failover", "A leader died before the lease of the earlier hand-over was committed.", RED),
    "lease_ended": Said("Lease ended", "Pulled, and the lease ran out without an outcome.", AMBER),
    "unknown_outcome": Said(
        "Outcome unknown", "Pushed, and no outcome reached the records before the lease ended.", VIOLET
    ),
    "acked_late": Said("Acknowledged late", "The consumer did acknowledge it, after its lease had ended.", BLUE),
    "scheduled_twice": Said("Scheduled twice", "An equal message was scheduled shortly before it.", GREY),
    "unexplained": Said("Unexplained", "None of these: a promise is broken.", INK),
    "resent": Said("Resent", "An operation made it due again after it was delivered, on a client's wish.", SKY),
}

LOST: Final = {
    "no_trace": Said("No trace", "Settled as delivered, and in no node's account."),
    "never_received": Said("Never received", "Settled as delivered, and in no consumer's receipts."),
    "not_found": Said("Not found", "Acknowledged to its producer, and in no node's hours."),
    "never_handed_over": Said("Never handed over", "Due for long, and never handed over."),
}

#: The most hand-over time that the failover duplicates of one change may span, ms.
SPAN_MAX_MS: Final = 50
