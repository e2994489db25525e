"""Reading an object: all faults at once, the gravest one names the refusal."""

import pytest

from api.contract.checker import Fault, read_flag, read_topic
from api.contract.object import Fields
from api.port.problem import Problem
from api.read.document import Faults, check_utf8, read_object

_FIELDS = Fields(
    {"topic": read_topic, "paused": read_flag},
    required={"topic": "topic is required"},
    planned=("rate",),
    read_only=("revision",),
)


def _refusal(data: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        read_object(data, _FIELDS)
    return caught.value


def test_what_is_right_comes_back() -> None:
    """Values by name, as the checkers give them."""
    assert read_object(b' {"topic":"a", "paused":true} ', _FIELDS) == {"topic": "a", "paused": True}


def test_all_faults_at_once() -> None:
    """Every fault has its entry; the detail tells the gravest and how many more."""
    problem = _refusal(b'{"rate":1,"paused":1,"pausd":1,"revision":1,"~/":1}')
    assert problem.code == "unknown-field"
    assert [fault.pointer for fault in problem.errors] == [
        "/rate",
        "/paused",
        "/pausd",
        "/revision",
        "/~0~1",
        "/topic",
    ]
    assert problem.detail == '/pausd: "pausd" is not a field here; did you mean "paused"? (and 5 more, see errors)'


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        (["not-supported-yet", "beyond-max-delay"], "beyond-max-delay"),
        (["beyond-max-delay", "invalid-field"], "invalid-field"),
        (["invalid-field", "unknown-field"], "unknown-field"),
        (["unknown-field", "too-large"], "too-large"),
    ],
)
def test_the_gravest_fault_gives_the_code(codes: list[str], told: str) -> None:
    """What no correction of another field could heal comes first."""
    faults = Faults()
    for code in codes:
        faults.add(code, "/x", "d")
    with pytest.raises(Problem) as caught:
        faults.raise_any()
    assert caught.value.code == told


def test_no_fault_raises_nothing() -> None:
    """An empty collection lets the reader go on."""
    Faults().raise_any()


def test_a_name_that_resembles_nothing() -> None:
    """Without a likely name the known ones are listed."""
    assert "known fields: topic, paused" in _refusal(b'{"topic":"a","zzzzzz":1}').detail


def test_a_repeated_member() -> None:
    """The last of two members with one name counts, as in every JSON reader, and both are checked as one."""
    assert read_object(b'{"topic":"a b","topic":"a"}', _FIELDS) == {"topic": "a"}


def test_utf8() -> None:
    """Text is accepted, the first bad byte is named."""
    check_utf8("é€😀".encode())
    with pytest.raises(Problem, match="at byte 2"):
        check_utf8(b"ab\xff")


def test_a_checker_points_below_its_field() -> None:
    """The pointer is the field's and the checker's own together."""

    def read(value: object) -> object:
        raise Fault("invalid-field", "d", "/3")

    with pytest.raises(Problem) as caught:
        read_object(b'{"a":1}', Fields({"a": read}))
    assert caught.value.errors[0].pointer == "/a/3"
