"""Writes what clients recorded as files for the reconciliation, and compares the reconciliation's ledger with the
checkers.

The checkers know what clients saw, the ledger what nodes recorded, and neither reads the other's. They must agree on
every repeat with both hand-overs seen: it is a duplicate in both, for the same cause, in the same terms.

The ledger has more duplicates if a leader was killed in the middle of a hand-over. If the hand-over reached no client,
only the leader's account has it. If the receiver refused it, or let it time out, the leader did not hear of that. So by
its records the repeat is a duplicate, not a retry.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from chaos.history.bounds import Bounds
from chaos.history.event import HandedOver
from chaos.history.history import History
from chaos.history.repeats import Repeat, repeats

TAKEN: Final = 200
#: The checker's cause -> the ledger's possible causes.
_LEDGER_CAUSES: Final = {
    "failover": ("failover",),
    "after_lease": ("lease_ended", "unknown_outcome", "acked_late"),
    "same_name": ("unexplained",),
    "unnamed": ("unexplained",),
}
#: The ledger's cause for two messages scheduled for one, where no message was handed over twice.
_OF_TWO: Final = "scheduled_twice"

Name = tuple[str, int, int]  # (message id, term, attempt)


@dataclass(frozen=True)
class Evidence:
    """The paths of two files, for `hourwheel reconcile --acknowledged ... --receipts ...`."""

    acknowledged: Path
    receipts: Path


@dataclass(frozen=True)
class Agreement:
    """The duplicates of ledger and checkers, by the ledger's causes.

    - `ledger`: all duplicates of the ledger.
    - `unseen`: those of the ledger of which clients did not see both hand-overs.
    - `unheard`: those of the ledger whose earlier hand-over had failed, when no leader was left to hear that.
    - `checkers`: the duplicates of the checkers.

    If `differences` is empty they agree, and ledger = unseen + unheard + checkers.
    """

    ledger: dict[str, int]
    unseen: dict[str, int]
    unheard: dict[str, int]
    checkers: dict[str, int]
    differences: list[str]


def write_evidence(history: History, directory: Path) -> Evidence:
    """Write acknowledged.ndjson with the ids in answers to producers, and receipts.ndjson with the deliveries to
    consumers and webhook receivers and the status of their answers."""
    found = Evidence(directory / "acknowledged.ndjson", directory / "receipts.ndjson")
    answers = history.acknowledged().values()
    _write(found.acknowledged, ({"id": each.message_id, "at_ms": each.wall_ms} for each in answers))
    _write(found.receipts, _receipts(history))
    return found


def agreement(history: History, bounds: Bounds, duplicates: Iterable[Mapping[str, Any]]) -> Agreement:
    """Compare the ledger's duplicates (id, term, attempt, before_term, before_attempt, cause) with the checkers'
    repeats. `history` has to come from `webhooks.account`, so that webhooks have the moment of their hand-over."""
    rows = [row for row in duplicates if row["cause"] != _OF_TWO]
    by_name = {_name(row): row for row in rows}
    seen = {(event.message_id, event.term, event.attempt) for event in history.of(HandedOver)}
    again: dict[Name, Repeat] = {}
    retried: dict[Name, Repeat] = {}
    for repeat in repeats(history, bounds):
        (retried if repeat.cause == "retried" else again)[_after(repeat)] = repeat
    differences = [f"{len(rows) - len(by_name)} duplicates are in the ledger twice"] if len(by_name) < len(rows) else []
    unseen: Counter[str] = Counter()
    unheard: Counter[str] = Counter()
    for name, row in by_name.items():
        if not {name, _before(row)} <= seen:
            unseen[row["cause"]] += name not in again
        elif name in retried and _failed_unheard(retried[name], row):
            unheard[row["cause"]] += 1
        elif name not in again:
            differences.append(f"{_said(name)}: {row['cause']} by the ledger, no duplicate by the checkers")
    checkers: Counter[str] = Counter()
    for name, repeat in again.items():
        found = by_name.get(name)
        checkers[found["cause"] if found else repeat.cause] += 1
        differences += _differs(name, repeat, found, seen)
    ledger = Counter(row["cause"] for row in rows)
    return Agreement(dict(ledger), dict(+unseen), dict(unheard), dict(checkers), differences)


def _failed_unheard(repeat: Repeat, row: Mapping[str, Any]) -> bool:
    """True if the checkers may call a repeat a retry and the ledger a duplicate. The checkers call it a retry if the
    receiver had not taken the push, or answered too late. The ledger does so only if the leader lived to record that
    failure."""
    before = repeat.before
    timed_out = before.pushed and repeat.after.handed_over_ms >= before.gives_up_ms
    return not before.taken or (timed_out and row["cause"] == "unknown_outcome")


def _differs(name: Name, repeat: Repeat, row: Mapping[str, Any] | None, seen: set[Name]) -> Iterator[str]:
    """The differences between the ledger and a repeat that clients saw. If the ledger says that the message repeats a
    hand-over which no client saw, that is no difference."""
    if row is None:
        yield f"{_said(name)}: {repeat.cause} by the checkers, no duplicate by the ledger"
    elif _before(row) in seen:
        before = (repeat.before.message_id, repeat.before.term, repeat.before.attempt)
        if _before(row) != before:
            yield f"{_said(name)}: repeats {_said(before)} by the checkers, {_said(_before(row))} by the ledger"
        if row["cause"] not in _LEDGER_CAUSES[repeat.cause]:
            yield f"{_said(name)}: {repeat.cause} by the checkers, {row['cause']} by the ledger"


def _name(row: Mapping[str, Any]) -> Name:
    return row["id"], row["term"], row["attempt"]


def _before(row: Mapping[str, Any]) -> Name:
    return row["id"], row["before_term"], row["before_attempt"]


def _after(repeat: Repeat) -> Name:
    return repeat.after.message_id, repeat.after.term, repeat.after.attempt


def _said(name: Name) -> str:
    return f"{name[0]} in term {name[1]}, attempt {name[2]}"


def _receipts(history: History) -> Iterator[dict[str, object]]:
    for event in history.of(HandedOver):
        yield {
            "id": event.message_id,
            "received_ms": event.wall_ms,
            "term": event.term,
            "attempt": event.attempt,
            "status": event.status or TAKEN,
        }


def _write(path: Path, rows: Iterable[dict[str, object]]) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        file.writelines(encoder.encode(row) + b"\n" for row in rows)
