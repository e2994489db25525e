"""What rules hold, line by line: asked from the last to the first, counted, and kept in order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from node.ready.held_units import HeldUnits, Piece
from node.ready.topic_window import LaneKind, Queued
from storage.tables.topic import Subscription
from tests.examples import examples

LINES = [(kind, Subscription(number)) for kind in LaneKind for number in (1, 2)]


def units(*positions: int) -> Queued:
    """Units with these positions."""
    at = np.array(positions, np.uint64)
    return Queued.of(at, at, at.view(np.int64))


def test_a_line_is_asked_from_its_end_and_keeps_its_order() -> None:
    """What may go leaves; the others stand as they stood, before what was parked meanwhile."""
    parked, (line, _, other, _) = HeldUnits(), LINES
    parked.park(Piece(*line, units(1, 2, 3)))
    parked.park(Piece(*line, units(4, 5)))
    assert (parked.count, parked.of(*line), parked.of(*other), parked.asking) == (5, 5, 0, False)
    assert parked.take(10) is None, "they were asked as they were parked"
    parked.ask_all()
    asked = []
    while (piece := parked.take(2)) is not None:
        asked.append(piece.units.position.tolist())
        parked.keep(piece._replace(units=piece.units.select(piece.units.position != 4)))
        if len(asked) == 1:
            parked.park(Piece(*line, units(6)))
    assert asked == [[4, 5], [2, 3], [1]]
    parked.ask_all()
    everything = parked.take(10)
    assert everything is not None
    assert (everything.kind, everything.subscription) == line
    assert everything.units.position.tolist() == [1, 2, 3, 5, 6]
    assert (parked.count, parked.lines, parked.asking) == (0, {}, False)


def test_a_piece_is_in_order_though_a_round_ended_within_it() -> None:
    """What was asked in the round before stands behind what was not."""
    parked, (line, *_) = HeldUnits(), LINES
    parked.park(Piece(*line, units(1, 2, 3, 4, 5)))
    for most, expected in ((1, [5]), (3, [3, 4, 5]), (10, [1, 2, 3, 4, 5])):
        parked.ask_all()
        piece = parked.take(most)
        assert piece is not None
        assert piece.units.position.tolist() == expected
        parked.keep(piece)


def test_the_last_ones_are_shed() -> None:
    """Of a line that is partly asked, in order."""
    parked, (line, *_) = HeldUnits(), LINES
    parked.park(Piece(*line, units(1, 2, 3, 4, 5)))
    parked.ask_all()
    piece = parked.take(2)
    assert piece is not None
    parked.keep(piece)
    assert parked.shed(*line, 4).position.tolist() == [5]
    assert parked.shed(*line, 2).position.tolist() == [3, 4]
    assert (parked.sizes(), parked.count) == ([(2, *line)], 2)
    assert parked.shed(*line, 0).position.tolist() == [1, 2]
    assert (parked.sizes(), parked.asking) == ([], False)


@examples(200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["park", "ask", "take", "shed"]),
            st.integers(0, 3),
            st.integers(0, 5),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_against_lists(steps: list[tuple[str, int, int, bool]]) -> None:
    """Whatever is done in whatever order: every unit is there once, in order, and each round asks each of them once."""
    parked, next_position = HeldUnits(), 1
    lines: dict[tuple[LaneKind, Subscription], list[int]] = {line: [] for line in LINES}
    to_ask: set[int] = set()
    for what, number, size, keeps in steps:
        line = LINES[number]
        if what == "park" and size:
            positions = list(range(next_position, next_position + size))
            next_position += size
            parked.park(Piece(*line, units(*positions)))
            lines[line] += positions
        elif what == "ask":
            parked.ask_all()
            to_ask = {position for each in lines.values() for position in each}
        elif what == "take":
            piece = parked.take(size + 1)
            assert (piece is None) == (not to_ask)
            if piece is not None:
                positions = piece.units.position.tolist()
                its = lines[piece.kind, piece.subscription]
                assert positions == [each for each in its if each in to_ask][-size - 1 :]
                to_ask -= set(positions)
                if keeps:
                    parked.keep(piece)
                else:
                    lines[piece.kind, piece.subscription] = [each for each in its if each not in positions]
        elif what == "shed" and lines[line]:
            shed = parked.shed(*line, size).position.tolist()
            assert shed == lines[line][size:]
            lines[line] = lines[line][:size]
            to_ask -= set(shed)
        assert {line: parked.of(*line) for line in LINES} == {line: len(each) for line, each in lines.items()}
        assert parked.count == sum(map(len, lines.values()))
        assert parked.asking == bool(to_ask)
        assert sorted(parked.sizes()) == sorted((len(each), *line) for line, each in lines.items() if each)
