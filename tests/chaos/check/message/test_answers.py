"""The checker of answers can fail: each untrue answer turns `answers` red, and the true one beside it does not."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from chaos.check.message.answers import check_answers
from chaos.history.bounds import Bounds
from chaos.history.event import (
    Accounted,
    Acked,
    Applied,
    Begun,
    Cancelled,
    Ended,
    Event,
    Fault,
    HandedOver,
    Kept,
    Looked,
    Nacked,
    Offered,
    Promoted,
    Pulled,
    Redriven,
    Rescheduled,
    Settled,
    Transferred,
)
from chaos.history.history import History
from node.port.failure_code import NACKED
from storage.format.level import LEVELS
from storage.format.rows import CODE_REDRIVEN
from storage.format.states import FORWARDED
from tests.chaos.history.planted import EPOCH_MS, LEASE_MS, at, hand_over
from tests.chaos.history.planted_inside import good_inside, with_more

RIGHT = Bounds(clocks_right=True)
NUMBER = 20  # due and handed over at 210 ms by n1 in term 1, acked at 215
DUE_MS = 10 * NUMBER + 10
LATE = 350  # handed over by n2 in term 2
LATE_MS = 10 * LATE + 10


def wrong(history: History, bounds: Bounds = RIGHT) -> list[str]:
    """What is untrue."""
    return check_answers(history, bounds).faults


def made(event: type[Event], ms: float, **fields: Any) -> Any:
    """An event at `ms`."""
    earlier = {"asked_wall_ms": EPOCH_MS + int(ms) - 1, "asked_mono_ms": ms - 1}
    asked = {name: value for name, value in earlier.items() if name in event.__struct_fields__}
    number = fields.get("number", NUMBER)
    named = {"number": number, "message_id": f"id{number}"}
    known = {name: value for name, value in named.items() if name in event.__struct_fields__}
    return event(**(at(ms) | asked | known | fields))


def cancel(ms: float, prior: str, attempts_made: int, **more: Any) -> Cancelled:
    """A cancel that took effect."""
    event: Cancelled = made(Cancelled, ms, outcome="cancelled", prior=prior, attempts_made=attempts_made, **more)
    return event


def look(ms: float, **said: Any) -> Looked:
    """A GET of a message that was handed over once."""
    honest = {"state": "leased", "due_ms": EPOCH_MS + DUE_MS, "attempt": 1, "lateness_ms": 0}
    leased = ("leased", EPOCH_MS + DUE_MS, "n1", 1, 1)
    event: Looked = made(Looked, ms, **(honest | {"handed_over_ms": EPOCH_MS + DUE_MS, "history": (leased,)} | said))
    return event


def of_topic(history: History, topic: str, strict: bool = False) -> History:
    """The same, all messages in this topic."""
    return History(
        msgspec.structs.replace(event, topic=topic, strict=strict) if isinstance(event, Offered) else event
        for event in history.events
    )


def never_acked(history: History) -> History:
    """The same without acks, of which it has no records."""
    return History(event for event in history.events if not isinstance(event, Acked))


def risen(history: History) -> History:
    """The same, of a cluster that stood at its newest level from the start."""
    return History(
        msgspec.structs.replace(event, version=LEVELS[1]) if isinstance(event, Applied) else event
        for event in history.events
    )


def test_good_history_says_nothing_untrue() -> None:
    """Nothing is red without an untrue answer, and what was looked at is counted."""
    verdict = check_answers(with_more(look(230)), RIGHT)
    assert not verdict.faults, verdict.describe()
    assert (verdict.figure["looked"], verdict.figure["cancelled"]) == (1, 1)


@pytest.mark.parametrize(
    ("prior", "attempts_made", "true"),
    [("none", 0, False), ("known", 0, False), ("known", 1, True), ("unknown", 0, True), ("unknown", 1, True)],
)
def test_a_cancel_leaves_out_nothing_that_was_received(prior: str, attempts_made: int, true: bool) -> None:
    """A12, D3, D4: by `prior`; of a message handed over by a leader that was elected right before."""
    later = cancel(4_000, prior, attempts_made, number=149)  # handed over at 1,500 ms, as term 2 begins
    assert bool(wrong(risen(with_more(later)))) is not true


@pytest.mark.parametrize("prior", ["known", "none"])
def test_below_the_newest_level_a_doubt_may_be_forgotten(prior: str) -> None:
    """Seed 30050: a message was handed over by a leader that died, then failed at the next one. That there was nothing
    at all is said by nobody."""
    later = cancel(4_000, prior, 0, number=149)
    assert bool(wrong(with_more(later))) is (prior == "none")
    assert wrong(risen(with_more(later)))


def test_a_cancel_of_what_was_redriven_is_held_to_the_truth_too() -> None:
    """Its attempts count on."""
    redriven = made(Settled, 2_000, message_id="id149", index=60, what=8, term=1, attempt=1, code=CODE_REDRIVEN)
    assert wrong(with_more(redriven, cancel(4_000, "none", 0, number=149)))


def test_a_cancel_tells_of_no_push_that_was_not_begun() -> None:
    """D10: known, and there was none."""
    told = cancel(4_000, "known", 2, number=LATE)
    assert not wrong(with_more(told)), "a pull's lease may have been lost on the way"
    assert wrong(of_topic(with_more(told), "push"))


def test_a_strict_cancel_doubts_only_what_is_on_record() -> None:
    """And only where a leader died."""
    told = cancel(4_000, "unknown", 0, number=149)
    assert not wrong(with_more(told))
    assert wrong(of_topic(with_more(told), "strict-pull", strict=True))


def test_a_doubt_needs_a_leader_that_died() -> None:
    """D14: none since the message came; nor where leadership was given."""
    long_ago = [event for event in good_inside() if event.mono_ms < 9_000]
    offered = made(Offered, 6_000, number=900, keyed=True, asked_due_ms=EPOCH_MS + 9_000)
    answer = {"type": "Answered", "number": 900, "node": "n2", "outcome": "acknowledged", "sent_mono_ms": 6_000.0}
    answered = msgspec.convert(answer | {"message_id": "id900", "due_ms": EPOCH_MS + 9_000} | at(6_001), Event)
    told = cancel(8_000, "unknown", 0, number=900)
    assert wrong(History([*long_ago, offered, answered, told]))
    assert not wrong(History([*long_ago, offered, answered, told]), Bounds(clocks_set_back=True)), "seed 33009"
    given: Any = {"source": "n2", "target": "n3", "asked": "n3", "term_before": 2, "term_after": 3, "took_ms": 9}
    elected = msgspec.convert({"type": "Led", "term": 3, "leader": "n3"} | at(7_000), Event)
    assert not wrong(History([*long_ago, offered, answered, elected, told]))
    transferred = Transferred(**at(7_000), **given)
    assert wrong(History([*long_ago, offered, answered, elected, transferred, told]))
    late = msgspec.structs.replace(answered, sent_mono_ms=7_500.0)
    far = msgspec.structs.replace(told, mono_ms=15_000.0)
    events = [msgspec.structs.replace(elected, mono_ms=4_000.0), offered, late, far]
    assert not wrong(History([*long_ago, *events])), "chaos seed 2102: one sent before under its key made it"
    assert wrong(History([*long_ago, *events[:1], msgspec.structs.replace(offered, keyed=False), *events[2:]]))
    another = Transferred(**at(7_000), **given | {"asked": "n1"})
    assert not wrong(History([*long_ago, offered, answered, elected, another, told])), "seed 36132: it was elected"
    waited = Promoted(**at(6_990), node="n3", term=3, open_ids=(), given=False)
    slow = msgspec.structs.replace(transferred, took_ms=1_553)
    before = [*long_ago, offered, answered]
    assert not wrong(History([*before, waited, elected, slow, told])), "seed 51189: the word was lost"
    assert wrong(History([*before, waited, elected, transferred, told])), "nobody had to wait"
    gave = msgspec.structs.replace(waited, given=True)
    assert wrong(History([*before, gave, elected, slow, told]))


@pytest.mark.parametrize(
    "said",
    [
        {"lateness_ms": -1_500},
        {"handed_over_ms": None},
        {"history": (("leased", EPOCH_MS + DUE_MS + 3_000, "n1", 1, 1),)},
        {"history": (("leased", EPOCH_MS + DUE_MS, "n3", 1, 1),)},
    ],
)
def test_a_get_tells_of_hand_overs_as_they_were(said: dict[str, Any]) -> None:
    """D11, D12: lateness, time and node."""
    assert wrong(with_more(look(230, **said)))


def test_a_strict_hand_over_begins_a_little_before_its_lease_says_so_where_a_clock_is_set_back() -> None:
    """Seed 52671: the leader's clock ran 2% fast, and was bound anew between the Lease and the hand-over. One that is
    slewed is not set back."""

    def told(early_ms: int, *more: Event) -> bool:
        return bool(wrong(with_more(look(230, history=(("leased", EPOCH_MS + DUE_MS + early_ms, "n1", 1, 1),)), *more)))

    def drift(ppm: int) -> Fault:
        return Fault(**at(100), kind="drift", node="n1", role="leader", phase="begin", detail=f"for=5 ppm={ppm}")

    fast = drift(-20_000)
    assert [told(4), told(5), told(14, fast), told(15, fast)] == [False, True, False, True]
    assert [told(4, drift(400)), told(5, drift(400))] == [False, True]


def test_a_get_tells_of_no_push_that_was_not_begun() -> None:
    """D10: planned by a leader that died. Null is true."""
    planned = look(3_000, history=(("leased", EPOCH_MS + 900, "n1", 1, 2),))
    assert wrong(of_topic(with_more(planned), "strict-push", strict=True))
    unknown = look(3_000, history=(("leased", None, "", 1, 2),))
    assert not wrong(of_topic(with_more(unknown), "strict-push", strict=True))


def test_a_get_of_a_strict_message_knows_each_attempt_that_was_received() -> None:
    """D1: received, and GET says that it never went out."""
    never = look(3_000, attempt=0, handed_over_ms=None, lateness_ms=None, history=())
    assert not wrong(with_more(never))
    assert wrong(of_topic(with_more(never), "strict-pull", strict=True))


@pytest.mark.parametrize(
    ("result", "made_it", "true"),
    [
        ("stale", 1, False),
        ("refused", 1, False),
        ("nacked", 0, False),
        ("nacked", 1, True),
        ("refused", 0, True),
        ("unknown", 1, True),
    ],
)
def test_a_nack_says_what_it_did(result: str, made_it: int, true: bool) -> None:
    """D7: nothing was done, and the message was given back."""
    nack = made(Nacked, 230, term=1, attempt=1, result=result)
    done = [made(Settled, 229, index=21, what=FORWARDED, term=1, attempt=1, code=NACKED)] * made_it
    other = made(Settled, 229, message_id="id21", index=21, what=FORWARDED, term=1, attempt=1, code=0)
    assert bool(wrong(never_acked(with_more(nack, other, *done)))) is not true


@pytest.mark.parametrize(
    ("outcome", "changed", "true"),
    [
        ("done", 1, False),
        ("done", 2, True),
        ("refused", 0, False),
        *(("unknown", most, most < 3) for most in (0, 2, 3)),
    ],
)
def test_a_redrive_says_how_many_it_changed(outcome: Any, changed: int, true: bool) -> None:
    """D6, D7: two were redriven, each with two records."""
    moved = [
        made(Settled, 300, message_id=f"id{number}", index=31, what=FORWARDED, term=0, attempt=0, code=CODE_REDRIVEN)
        for number in (1, 1, 2, 2)
    ]
    redrive = made(Redriven, 310, topic="poison", asked_mono_ms=290.0, outcome=outcome, changed=changed)
    assert bool(wrong(never_acked(with_more(*moved, redrive)))) is not true


@pytest.mark.parametrize("term", [1, 9])
def test_what_a_redrive_of_unknown_outcome_proposed_may_happen_later(term: int) -> None:
    """Seed 41100: the next leader completed it, and the redrive between was refused. What a leader of a later
    term proposes was asked of it."""
    unknown = made(Redriven, 280, topic="poison", asked_mono_ms=270.0, outcome="unknown", changed=0)
    refused = made(Redriven, 295, topic="poison", asked_mono_ms=290.0, outcome="refused", changed=0)
    entry = next(event for event in good_inside() if isinstance(event, Applied) and event.mono_ms < 280)
    later = msgspec.structs.replace(entry, mono_ms=300.0, index=999, term=term)
    moved = made(Settled, 300, message_id="id1", index=999, what=FORWARDED, term=0, attempt=0, code=CODE_REDRIVEN)
    assert bool(wrong(never_acked(with_more(unknown, refused, later, moved)))) is (term == 9)


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
def test_a_pull_that_was_told_of_nothing_got_nothing(outcome: Any) -> None:
    """D9: leased, and the answer was that nothing had happened."""
    leased = Begun(
        **at(700),
        node="n1",
        message_id="id20",
        term=1,
        attempt=2,
        at_ms=EPOCH_MS + 700,
        asked_due_ms=EPOCH_MS + 210,
        pushed=False,
    )
    pull = made(Pulled, 710, topic="pull", node="n2", asked_mono_ms=600.0, outcome=outcome)
    assert bool(wrong(of_topic(with_more(leased, pull), "pull"))) is (outcome == "refused")


@pytest.mark.parametrize(("due_ms", "true"), [(3_000, True), (DUE_MS, False)])
def test_a_keys_holder_is_due_when_it_was_moved_to(due_ms: int, true: bool) -> None:
    """D13."""
    moved = made(Rescheduled, 150, outcome="moved", due_ms=EPOCH_MS + 3_000)
    kept = made(Kept, 160, due_ms=EPOCH_MS + due_ms)
    assert bool(wrong(with_more(moved, kept))) is not true


@pytest.mark.parametrize("early_ms", [0, 900])
def test_a_strict_lease_runs_as_long_as_it_was_given_for(early_ms: int) -> None:
    """D2: by the truth, whatever the clock of the next leader shows; where all clocks are in their bound."""
    first = hand_over(900, 800, 1, begun_wall_ms=EPOCH_MS + 800)
    ms = 800 + LEASE_MS - early_ms
    again = hand_over(900, ms, 2, 2, begun_wall_ms=EPOCH_MS + ms, handed_over_ms=EPOCH_MS + 800 + LEASE_MS)
    offered = made(Offered, 700, number=900, keyed=True, asked_due_ms=EPOCH_MS + 800, strict=True)
    history = with_more(offered, first, again)
    assert bool(wrong(history)) is bool(early_ms)
    assert not wrong(history, replace(RIGHT, clocks_right=False))


@pytest.mark.parametrize("repeated", [0, 1])
def test_a_transfer_counts_what_came_again(repeated: int) -> None:
    """D2."""
    given: Any = {"source": "n1", "target": "n2", "asked": "n2", "term_before": 1, "term_after": 2, "took_ms": 9}
    again = hand_over(NUMBER, 1_600, 2, 2, begun_wall_ms=EPOCH_MS + 1_600)
    events = [
        msgspec.structs.replace(event, begun_wall_ms=event.handed_over_ms) if isinstance(event, HandedOver) else event
        for event in with_more(again, Transferred(**at(1_500), **given, repeated=repeated + 3)).events
    ]  # three came again in the good history
    assert bool(wrong(History(events))) is (repeated == 0)


@pytest.mark.parametrize(
    ("kind", "hand_overs", "complete", "true"),
    [
        ("delivered_once", 0, True, False),
        ("delivered_once", 0, False, True),
        ("delivered_once", 1, True, True),
        ("lost", 1, False, False),
    ],
)
def test_the_ledger_knows_of_all_that_was_received(kind: str, hand_overs: int, complete: bool, true: bool) -> None:
    """D5: or says that an account is missing. Nothing that was received is lost."""
    account = made(Accounted, 9_000, kind=kind, hand_overs=hand_overs, complete=complete)
    assert bool(wrong(with_more(account))) is not true


@pytest.mark.parametrize(("old", "complete"), [(False, True), (False, False), (True, False)])
def test_what_was_received_twice_was_not_delivered_once(old: bool, complete: bool) -> None:
    """Whatever else is said of its account; but for one from before the records."""
    again = hand_over(NUMBER, 1_600, 2, 2, begun_wall_ms=EPOCH_MS + 1_600)
    account = made(Accounted, 9_000, kind="delivered_once", hand_overs=2, complete=complete, old=old)
    assert not wrong(with_more(again))
    assert bool(wrong(with_more(again, account))) is not old
    assert not wrong(with_more(again, msgspec.structs.replace(account, asked_mono_ms=1_500.0))), "it came after"


def test_what_failed_by_its_nodes_account_is_retried_whatever_its_receiver_answered() -> None:
    """Seed 42142: the leader stood still until the time for an answer was over, though that lay in its socket."""
    again = hand_over(NUMBER, 1_600, 2, 2, begun_wall_ms=EPOCH_MS + 1_600)
    account = made(Accounted, 9_000, kind="delivered_once", hand_overs=2, complete=True, old=False)
    assert wrong(with_more(again, account))
    first = next(each for each in with_more().of(HandedOver) if each.number == NUMBER)
    failed = Ended(**at(1_590), message_id=first.message_id, term=first.term, attempt=first.attempt, node="n1")
    assert not wrong(with_more(again, account, failed))


def test_what_was_answered_when_the_time_for_that_was_over_had_failed_by_then() -> None:
    """A receiver beside a load took a push 5.5 s after it was sent and answered it, 3.5 s after its node gave up; it
    came again after the lease, and the ledger said that it was delivered once."""
    again = hand_over(NUMBER, 1_600, 2, 2, begun_wall_ms=EPOCH_MS + 1_600)
    account = made(Accounted, 9_000, kind="delivered_once", hand_overs=2, complete=True, old=False)

    def answered(gives_up_ms: int) -> History:
        history = with_more(again, account)
        first = next(each for each in history.of(HandedOver) if each.number == NUMBER)
        pushed = msgspec.structs.replace(
            first, status=200, gives_up_ms=gives_up_ms, leased_until_ms=again.handed_over_ms
        )
        return History([pushed if each is first else each for each in history.events])

    came_ms = next(each for each in with_more().of(HandedOver) if each.number == NUMBER).wall_ms
    assert wrong(answered(came_ms + 1))
    assert not wrong(answered(came_ms))
