"""An atomic batch is written whole, or not at all.

Every line has a key. So the answer says of each line whether this request wrote it or an earlier one did. A mixture
shows a batch that was written in part. No message of a refused batch is ever handed over.
"""

from collections import Counter

from chaos.history.bounds import Bounds
from chaos.history.event import BatchAnswered, HandedOver
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_whole_batches(history: History, bounds: Bounds) -> Verdict:
    """Check each atomic batch by its final answer, and by the hand-overs of its messages."""
    handed_over = {event.number for event in history.of(HandedOver)}
    faults: list[str] = []
    for batch in history.of(BatchAnswered):
        first, last = batch.numbers[0], batch.numbers[-1]
        if len(set(batch.replayed)) > 1:
            earlier = sum(batch.replayed)
            faults.append(f"batch {first} to {last}: an earlier request wrote {earlier} of {len(batch.replayed)} lines")
        if batch.outcome == "refused" and (there := handed_over.intersection(batch.numbers)):
            faults.append(f"batch {first} to {last} was refused, and {sorted(there)} were handed over")
    outcomes = Counter(batch.outcome for batch in history.of(BatchAnswered))
    figure = {
        "batches": outcomes.total(),
        "written": outcomes["acknowledged"],
        "refused": outcomes["refused"],
        "unknown": outcomes["unknown"],
        "replayed": sum(all(batch.replayed) for batch in history.of(BatchAnswered) if batch.replayed),
        "wrong": len(faults),
    }
    return Verdict("whole_batches", figure, faults)
