"""Every checker must be able to fail: one planted fault turns exactly the promise red that it breaks."""

from pathlib import Path

import msgspec
import pytest

from chaos.check.message.window import check_window
from chaos.history.bounds import Bounds
from chaos.history.event import (
    Acked,
    Answered,
    Cancelled,
    Event,
    Fault,
    HandedOver,
    Led,
    Nacked,
    Offered,
    Rescheduled,
    Settled,
)
from chaos.history.history import History
from chaos.history.repeats import repeats
from chaos.history.verdict import Verdict
from chaos.live.verdicts import judge
from storage.format.rows import CODE_REDRIVEN
from storage.format.states import FORWARDED
from tests.chaos.history.planted import (
    CANCELLED,
    DUPLICATES,
    EPOCH_MS,
    KILL_MS,
    LEASE_MS,
    RELEASED,
    added,
    at,
    changed,
    good,
    hand_over,
)

BOUNDS = Bounds(late_ms=100, recovery_ms=1_500, window_ms=1_000)


def verdicts(history: History, bounds: Bounds = BOUNDS) -> dict[str, Verdict]:
    """Verdicts by promise."""
    return {verdict.promise: verdict for verdict in judge(history, bounds)}


def broken(history: History, bounds: Bounds = BOUNDS) -> str:
    """The letters of the broken promises."""
    return "".join(promise for promise, verdict in verdicts(history, bounds).items() if not verdict.holds)


def is_hand_over(event: Event, number: int) -> bool:
    """Whether it is a hand-over of this message."""
    return isinstance(event, HandedOver) and event.number == number


def without_ack(history: History, number: int) -> History:
    """The history in which this message was never acked."""
    return History(event for event in history.events if not isinstance(event, Acked) or event.number != number)


def is_answer(event: Event, number: int) -> bool:
    """Whether it is the outcome of this offer."""
    return isinstance(event, Answered) and event.number == number


def test_good_history_holds_all_promises() -> None:
    """Nothing is red without a fault, and each figure says what happened."""
    found = verdicts(History(good()))
    assert not broken(History(good())), "\n".join(verdict.describe() for verdict in found.values())
    assert found["L"].figure["lost"] == 0
    assert found["U"].figure["cancelled"] == 1
    assert found["W"].figure["early"] == 0
    assert found["D"].figure == {"duplicates": 4, "failover": 3, "after_lease": 1, "retried": 0, "span_ms": 20}
    assert found["S"].figure["terms"] == 2
    assert found["R"].figure["new_term_ms"] == {"p50": 502.0, "p99": 502.0, "p99.9": 502.0, "max": 502.0}


def test_dropped_acknowledged_message_is_lost() -> None:
    """L: an acknowledged message whose hand-over is taken out is named."""
    history = changed(lambda event: is_hand_over(event, 20), lambda event: None)
    assert broken(history) == "L"
    assert "message 20" in verdicts(history)["L"].faults[0]


def test_unknown_outcome_may_come_out_or_not() -> None:
    """L and U: an unknown outcome is neither yes nor no."""
    for number, change in ((20, "with"), (CANCELLED, "without")):
        history = changed(
            lambda event, number=number: is_answer(event, number),  # type: ignore[misc]
            lambda event: msgspec.structs.replace(event, outcome="unknown", message_id=""),
        )
        assert broken(history) == "", change


@pytest.mark.parametrize(("first", "lost"), [("unknown", ""), ("refused", "L")])
def test_a_cancel_that_may_have_succeeded_counts_whatever_a_later_one_met(first: str, lost: str) -> None:
    """L (seed 27020): the second one found nobody, and said nothing of the first."""
    events = list(changed(lambda event: is_hand_over(event, 20), lambda event: None).events)
    (cancel,) = (event for event in events if isinstance(event, Cancelled))
    for outcome in (first, "refused"):
        again = msgspec.structs.replace(cancel, number=20, outcome=outcome, prior="", attempts_made=0)
        events.append(again)
    assert broken(History(events)) == lost


def test_refused_message_must_not_come_out() -> None:
    """U: handed over although the offer was refused."""
    history = changed(
        lambda event: is_answer(event, 20),
        lambda event: msgspec.structs.replace(event, outcome="refused", message_id=""),
    )
    assert broken(history) == "U"


def test_message_nobody_offered() -> None:
    """U: handed over, never offered."""
    history = added(hand_over(10_000, 200_000, 2, due_ms=EPOCH_MS, asked_due_ms=EPOCH_MS + 200_000))
    assert broken(history) == "U"


def test_scheduled_twice_under_two_ids() -> None:
    """U and ids: one offer that came out as two messages was proposed twice; linear: the first had been acked."""
    history = added(hand_over(20, 10 * 20 + 10 + LEASE_MS, 2, 2, message_id="another"))
    assert broken(history) == "Uidslinear"


@pytest.mark.parametrize("late_ms", [1, 40])
def test_revived_cancelled_message(late_ms: int) -> None:
    """U and linear, or answers: a hand-over after a cancel's 200, or before one that said `prior: none`."""
    due_ms = 10 * CANCELLED + 10
    history = added(hand_over(CANCELLED, due_ms + late_ms, 2, due_ms=EPOCH_MS, wall_ms=EPOCH_MS + due_ms + 45))
    assert broken(history) == ("answers" if late_ms == 1 else "Ulinear")


def test_cancel_of_unknown_prior_allows_what_a_dead_leader_did() -> None:
    """answers: with `prior: unknown` a hand-over before the answer is honest."""
    due_ms = 10 * CANCELLED + 10
    history = added(hand_over(CANCELLED, due_ms + 1, 2, due_ms=EPOCH_MS, wall_ms=EPOCH_MS + due_ms + 2))
    place = next(place for place, event in enumerate(history.events) if type(event).__name__ == "Cancelled")
    history.events[place] = msgspec.structs.replace(history.events[place], prior="unknown")
    assert broken(history) == ""
    offer = next(
        place for place, event in enumerate(history.events) if isinstance(event, Offered) and event.number == CANCELLED
    )
    history.events[offer] = msgspec.structs.replace(history.events[offer], strict=True)
    assert broken(history) == "answers", "a strict topic never doubts"


def rescheduled(number: int, ms: int, due_ms: int) -> Event:
    """Message `number` moved to `due_ms` by an answer at `ms`."""
    fields = {"number": number, "message_id": f"id{number}", "outcome": "moved", "type": "Rescheduled"}
    times = {"asked_wall_ms": EPOCH_MS + ms - 3, "due_ms": EPOCH_MS + due_ms}
    return msgspec.convert(fields | times | at(ms), Rescheduled)


def test_hand_over_before_the_time_it_was_moved_to() -> None:
    """Due at 210, moved at 205 to 900: the hand-over at 210 breaks the promise; one that began before does not."""
    assert broken(added(rescheduled(20, 205, 900))) == "U"
    assert broken(added(rescheduled(20, 211, 900))) == ""
    assert broken(added(rescheduled(20, 205, 210))) == ""
    codes = {"what": FORWARDED, "code": CODE_REDRIVEN}
    redriven = Settled(**at(207), message_id="id20", index=30, term=1, attempt=1, **codes)
    again = broken(added(rescheduled(20, 205, 900), redriven))
    assert "U" not in again, "dead and redriven, clocks set back (seed 31011)"


def test_webhook_that_no_node_wrote_down() -> None:
    """Its time is not known, so it cannot have been in its window either."""
    webhook = changed(
        lambda event: is_hand_over(event, 7),
        lambda event: msgspec.structs.replace(event, status=200, connection="push id7 1 1"),
    )
    assert broken(webhook) == ""
    assert verdicts(webhook)["P"].figure == {"webhooks": 1, "answered_500": 0, "unaccounted": 0}
    unknown = changed(
        lambda event: is_hand_over(event, 7),
        lambda event: msgspec.structs.replace(event, status=200, connection="push id7 1 1", handed_over_ms=0),
    )
    assert broken(unknown) == "WP"


def test_failed_webhook_is_no_delivery_and_its_retry_no_duplicate() -> None:
    """Answered 500: without a retry it is lost; with one before the lease ended, all is well."""

    def fail(event: Event) -> Event:
        return msgspec.structs.replace(event, status=500, connection="push id7 1 1")

    failed = without_ack(changed(lambda event: is_hand_over(event, 7), fail), 7)
    assert broken(failed) == "L"
    retried = History([*failed.events, hand_over(7, 3_990, 2, 2, status=200, connection="push id7 2 2")])
    assert broken(retried) == ""
    assert verdicts(retried)["D"].figure["retried"] == 1


def test_given_back_while_the_nodes_clocks_are_behind() -> None:
    """Seed 990107: the clocks of the nodes went back an hour; a nack seemed to come after what it had brought on."""
    taken = next(event for event in good() if is_hand_over(event, 7))
    assert isinstance(taken, HandedOver)
    again = msgspec.structs.replace(
        hand_over(7, taken.handed_over_ms - EPOCH_MS + 40, taken.term + 1, taken.attempt + 1),
        handed_over_ms=taken.handed_over_ms - 3_600_000,
        begun_wall_ms=0,
    )
    nack = Nacked(
        mono_ms=taken.mono_ms + 20,
        wall_ms=taken.wall_ms + 20,
        number=7,
        message_id=taken.message_id,
        term=taken.term,
        attempt=taken.attempt,
        result="nacked",
        asked_wall_ms=taken.wall_ms + 10,
    )
    assert [each.cause for each in repeats(History([taken, nack, again]), BOUNDS)] == ["retried"]
    assert [each.cause for each in repeats(History([taken, again]), BOUNDS)] == ["failover"]
    seen = msgspec.structs.replace(again, begun_wall_ms=nack.asked_wall_ms - 1)  # on its way while it was given back
    assert [each.cause for each in repeats(History([taken, nack, seen]), BOUNDS)] == ["failover"]


def test_a_push_known_by_its_receipt_alone_may_have_been_given_up() -> None:
    """Seed 990115: received two seconds after it was sent, and sent again by then; a power cut took the account."""
    taken = next(event for event in good() if is_hand_over(event, 7))
    assert isinstance(taken, HandedOver)
    gives_up_ms = taken.handed_over_ms + 1_000
    first = msgspec.structs.replace(taken, status=200, connection="a", gives_up_ms=gives_up_ms, by_receipt=True)
    again = msgspec.structs.replace(first, attempt=first.attempt + 1, handed_over_ms=first.handed_over_ms + 80)
    assert [each.cause for each in repeats(History([first, again]), BOUNDS)] == ["retried"]
    known = msgspec.structs.replace(first, by_receipt=False)
    assert [each.cause for each in repeats(History([known, again]), BOUNDS)] == ["unnamed"]


def test_webhook_again_before_its_attempt_could_time_out() -> None:
    """Taken, and again in a later term: after the timeout its outcome was unknown to the sender, before it is a
    duplicate of the failover.
    """
    first = changed(
        lambda event: is_hand_over(event, 95),
        lambda event: msgspec.structs.replace(event, status=200, connection="push a", gives_up_ms=EPOCH_MS + 1_400),
    )
    assert verdicts(first)["D"].figure["retried"] == 1
    late = changed(
        lambda event: is_hand_over(event, 95),
        lambda event: msgspec.structs.replace(event, status=200, connection="push a", gives_up_ms=EPOCH_MS + 1_600),
    )
    assert verdicts(late)["D"].figure["failover"] == 3


def test_hand_over_before_its_due_time() -> None:
    """W: one millisecond early by the leader's own stamp."""
    history = changed(
        lambda event: is_hand_over(event, 20),
        lambda event: msgspec.structs.replace(event, handed_over_ms=event.due_ms - 1),  # type: ignore[union-attr]
    )
    assert broken(history) == "W"
    assert verdicts(history)["W"].figure["early"] == 1


def test_received_before_its_due_time_whatever_the_stamp_says() -> None:
    """W: the receiver's clock is asked too, a leader with a fast clock cannot hide."""
    history = changed(
        lambda event: is_hand_over(event, 20),
        lambda event: msgspec.structs.replace(event, wall_ms=event.due_ms - 5),  # type: ignore[union-attr]
    )
    assert broken(history) == "W"


def test_a_clock_that_went_back_after_a_hand_over_makes_the_next_one_no_early_one() -> None:
    """Chaos seed 2102: a leader went back by a minute, and the next one, who had heard no other, showed what
    it said. Its hand-over was of a retry that was due by that; the receiver's clock tells that it was not early."""
    once = {"due_ms": EPOCH_MS + 1_000, "handed_over_ms": EPOCH_MS + 1_000}
    before = hand_over(20, 1_000, 1, **once)
    again = hand_over(20, 1_600, 2, 2, **once | {"handed_over_ms": EPOCH_MS})
    assert check_window(History([before, again]), Bounds()).holds
    assert not check_window(History([again]), Bounds()).holds
    early = msgspec.structs.replace(again, wall_ms=EPOCH_MS)
    assert not check_window(History([before, early]), Bounds()).holds


def test_hand_over_moved_past_its_window() -> None:
    """W: late outside any fault window; the same lateness inside one is excused."""
    for number, letters in ((300 + 50, "W"), (120, "")):
        history = changed(
            lambda event, number=number: is_hand_over(event, number),  # type: ignore[misc]
            lambda event: msgspec.structs.replace(event, wall_ms=event.wall_ms + 500, mono_ms=event.mono_ms + 500),
        )
        assert broken(history) == letters, number


def test_doubled_hand_over() -> None:
    """D: the same (term, attempt) twice has no honest cause."""
    history = added(hand_over(20, 215, 1))
    assert broken(history) == "D"


def test_repeat_in_the_same_term_before_the_lease_ended() -> None:
    """D: a leader that hands over what it has leased."""
    history = added(hand_over(20, 215, 1, 2))
    assert broken(history) == "D"


def test_failover_duplicates_over_their_span() -> None:
    """D: one more duplicate whose first hand-over was 100 ms before the others'."""
    history = without_ack(added(hand_over(DUPLICATES[0] - 10, 1_501, 2, 2)), DUPLICATES[0] - 10)
    assert broken(history) == "D"
    assert verdicts(history)["D"].figure["span_ms"] == 120
    by_receipt = History(
        msgspec.structs.replace(event, by_receipt=True) if is_hand_over(event, DUPLICATES[0] - 10) else event
        for event in history.events
    )  # when it was made is not known, so it is in no span
    assert broken(by_receipt) == ""
    assert verdicts(by_receipt)["D"].figure["failover"] == 4


def test_repeat_after_the_lease_is_counted_apart() -> None:
    """D: a repeat once the lease ran out is the consumer's; a later term does not make it a failover duplicate."""
    history = changed(lambda event: is_hand_over(event, RELEASED) and event.attempt == 2, lambda event: None)  # type: ignore[union-attr]
    assert broken(history) == ""
    assert verdicts(history)["D"].figure["after_lease"] == 0


def test_two_leaders_of_one_term() -> None:
    """S: two nodes that both say they lead term 2."""
    assert broken(added(Led(term=2, leader="n3", mono_ms=1_600.0, wall_ms=EPOCH_MS + 1_600))) == "S"


def test_old_leader_hands_over_after_the_new_one() -> None:
    """S: of the old term, stamped after the fault that ended it."""
    number = 1_510 // 10 - 1
    history = changed(
        lambda event: is_hand_over(event, number),
        lambda event: msgspec.structs.replace(event, term=1),
    )
    assert broken(history) == "S"


def test_old_leader_may_finish_one_write_per_connection() -> None:
    """S: chosen before the fault and received late is allowed once a connection, in one answer."""
    first = hand_over(98, KILL_MS - 10, 1, mono_ms=1_700.0, wall_ms=EPOCH_MS + 1_700)
    history = changed(lambda event: is_hand_over(event, 98), lambda event: first)
    history.events.sort(key=lambda event: event.mono_ms)
    assert broken(history, Bounds()) == ""
    assert verdicts(history)["S"].figure["old_term_after_new"] == 1
    place = next(place for place, event in enumerate(history.events) if is_hand_over(event, 97))
    history.events[place] = msgspec.structs.replace(first, number=97, message_id="id97", response=1_000)
    history.events.sort(key=lambda event: event.mono_ms)
    assert broken(history, Bounds()) == "S"


def test_service_that_does_not_come_back() -> None:
    """R: no acknowledgement and no hand-over after the fault; and a slow return is over the bound."""
    quiet = [event for event in good() if not isinstance(event, Answered | HandedOver) or event.mono_ms < KILL_MS]
    assert "R" in broken(History(quiet))
    assert broken(History(good()), Bounds(window_ms=1_000, recovery_ms=400)) == "R"


def test_offers_outside_the_fault_windows_must_be_acknowledged() -> None:
    """R: one in ten of the calm offers without an acknowledgement is over the share; inside the window none counts."""
    calm = [event for event in good() if isinstance(event, Offered) and event.mono_ms > 2_500][::4]
    numbers = {event.number for event in calm}
    events = [
        msgspec.structs.replace(event, outcome="unknown", message_id="")
        if isinstance(event, Answered) and event.number in numbers
        else event
        for event in good()
    ]
    assert broken(History(events)) == "R"


def test_pause_excuses_until_it_is_over() -> None:
    """Windows: a pause lasts until its end, a kill for the fixed time, a slow disk excuses nothing."""
    rows = [("pause", "begin", 10), ("pause", "end", 3_010), ("kill", "begin", 5_000), ("slow", "begin", 7_000)]
    events = [
        msgspec.convert({"type": "Fault", "kind": kind, "node": "n1", "role": "leader", "phase": phase} | at(ms), Fault)
        for kind, phase, ms in rows
    ]
    assert Bounds(window_ms=500).fault_windows(History(events)).spans == [(10.0, 3_510.0), (5_000.0, 5_500.0)]


def test_history_survives_its_file(tmp_path: Path) -> None:
    """A history read back gives the same verdicts, event by event."""
    history = History(good())
    history.write(tmp_path / "history.ndjson")
    assert History.read(tmp_path / "history.ndjson").events == history.events
