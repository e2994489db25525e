"""The places where the death of a leader falls, from planted events."""

from chaos.history.event import Applied, Event, ProcessEnded, Proposal, RequestAnswered, Sure
from chaos.history.history import History
from chaos.history.killed_requests import BEFORE, COMMITTED, PROPOSED, RUNNING, killed_requests
from tests.chaos.history.planted import at

CRC = 7


def request(from_ms: int, to_ms: int, **other: str) -> RequestAnswered:
    """A replace that was sent and answered then."""
    return RequestAnswered(**at(to_ms), **({"kind": "replace", "name": "5"} | other), asked_mono_ms=from_ms)  # type: ignore[arg-type]


def places(*events: Event, died_ms: int = 120, node: str = "n1") -> dict[tuple[str, str], int]:
    """The places of a history in which n1 leads until `node` dies."""
    led = [Sure(**at(ms), node="n1", term=1) for ms in range(0, died_ms, 10)]
    died = ProcessEnded(**at(died_ms), node=node)
    return dict(killed_requests(History(sorted([*led, died, *events], key=lambda event: event.mono_ms))))


def proposal(ms: int, node: str = "n1") -> Proposal:
    """The entry with the request."""
    return Proposal(**at(ms), node=node, crc=CRC, names=("4", "5"))


def applied(ms: int) -> Applied:
    """The entry at the first node that applies it."""
    return Applied(**at(ms), node="n2", index=9, term=1, crc=CRC, rolling="")


def test_each_place_is_told_from_the_others() -> None:
    """By the proposal of the node that died, and by the first node that applied it."""
    assert places(request(100, 200)) == {("replace", BEFORE): 1}
    assert places(request(100, 200), proposal(110)) == {("replace", PROPOSED): 1}
    assert places(request(100, 200), proposal(110), applied(130)) == {("replace", PROPOSED): 1}
    assert places(request(100, 200), proposal(110), applied(119)) == {("replace", COMMITTED): 1}
    assert places(request(100, 200, kind="running", name="cancel 1 2")) == {("operation", RUNNING): 1}


def test_what_is_not_under_way_does_not_count() -> None:
    """A request that has its answer, or is sent later, and the death of a node that does not lead."""
    assert places(request(100, 119), request(121, 200)) == {}
    assert places(request(100, 200), node="n2") == {}


def test_a_proposal_of_another_node_or_try_does_not_count() -> None:
    """The next leader proposes a request that is sent again."""
    assert places(request(100, 200), proposal(110, node="n2")) == {("replace", BEFORE): 1}
    assert places(request(100, 200), proposal(90), applied(95)) == {("replace", BEFORE): 1}
