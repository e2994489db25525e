"""Moves of an entry are bounded by what is copied for them."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from node.node import Node
from node.settle.move_size import BYTES_A_MOVE, move_pieces, move_weight, move_weights
from node.write.command_queues import ENTRY_MOVES_MAX
from tests.node.single_node import run_node
from tests.replication.applied_log import HOUR_MS, T0, cancel, placed, risen_log, schedule


@given(st.lists(st.integers(1, 300), max_size=50), st.integers(1, 400))
def test_pieces_hold_every_row_once_in_order_and_no_more_than_their_bound(weights: list[int], most: int) -> None:
    """A row that is more than the bound stands alone."""
    pieces = list(move_pieces(np.array(weights, np.int64), most))
    rows = [row for piece in pieces for row in range(*piece.indices(len(weights)))]
    assert rows == list(range(len(weights)))
    assert all(sum(weights[piece]) <= most or piece.stop - piece.start == 1 for piece in pieces)


def test_a_large_record_counts_for_many_small_ones() -> None:
    """Entries of moves copy 4 MiB at most, or one record."""
    assert move_weight(100) == 1
    assert ENTRY_MOVES_MAX * BYTES_A_MOVE <= 4 << 20
    assert move_weight(256 << 10) == 65


def test_many_large_messages_given_back_at_once_leave_the_loop_its_turns(tmp_path: Path) -> None:
    """200 messages of 250 KB in one nack: they went in one entry, and every node stood still while it was applied
    (3 s for a thousand of them, with 900 MB of memory)."""
    body = b'"' + b"x" * 250_000 + b'"'

    async def play(node: Node) -> None:
        for _ in range(4):
            await node.front.schedule([MessageIn("t", body, "", None, None)] * 50, ANONYMOUS)
        got: list[Delivery] = []
        while len(got) < 200:
            got += await node.front.pull(PullIn("t", 1000, wait_ms=1000, lease_ms=60_000), ANONYMOUS)
        entries = node.group.proposer.entries
        receipts = [each.receipt for each in got]
        results = await node.front.nack("t", receipts, delay_ms=60_000, principal=ANONYMOUS)
        assert set(results) == {"nacked"}
        assert node.group.proposer.entries - entries >= 200 * 65 // ENTRY_MOVES_MAX

    run_node(tmp_path, play)


def test_pages_of_what_has_ended_count(tmp_path: Path) -> None:
    """A redrive of 1,000 messages, each on a page of its own, held every follower for 60 ms."""
    with risen_log(tmp_path) as log:
        placed(log.apply(schedule(*[T0] * 1_100)))
        homes = np.array([T0 // HOUR_MS << 40 | at for at in (0, 1, 600, 2, 1_000, 1_001, 9_999)], np.uint64)
        assert move_weights(log.store, homes).tolist() == [1] * 7
        log.apply(cancel(*homes[:5].tolist()))
        assert move_weights(log.store, homes).tolist() == [4, 1, 4, 4, 4, 1, 1]
