"""Applies the rules of the ledger to what was read and what the members answered. It changes nothing, so any thread can
run it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ledger.bucket import SPAN, Context, Rows, Topic
from ledger.columns import Columns
from ledger.judge import Ledger, judge
from ledger.terms import merge_terms, terms_of
from ledger.unrecorded import NOBODY, beyond, closed, unrecorded
from node.ledger.ask_members import Accounts
from node.ledger.read import HourMessages
from storage.catalog.restored import Restored
from storage.file.delivery_file import whole_from_ms
from storage.format.array import I64, U64
from storage.format.rows import PLANNED, take_rows
from storage.format.states import KEEPS_HOUR, LEASED
from storage.record.delivery_record import START, Deliveries

#: Hand-overs are searched from this long before a message fell due, because the clocks of two leaders may be apart.
BEFORE_MS: Final = 10_000
#: How far a former leader's clock may have been ahead of this one's.
AHEAD_MS: Final = 1_000
#: Hand-overs whose end came this long after the message ended are still searched. For messages that were handed over
#: several times the second number holds: acks of earlier hand-overs may come late.
AFTER_MS: Final = 60_000
AFTER_SEVERAL_MS: Final = 900_000
#: An account counts as covering the present up to this long after the moment of the ledger.
COVER_AFTER_MS: Final = 60_000

_NEVER_MS: Final = 1 << 62


class HandOverTime(NamedTuple):
    """The time in which some messages can have been handed over: from_ms <= time < until_ms. If a message was handed
    over several times, its late acks may come until `later_ms`."""

    from_ms: int
    until_ms: int
    later_ms: int


@dataclass(frozen=True, slots=True)
class Judged:
    """Some messages of one hour, with their ledger and the records from which it was made.

    - `rows`: the order in which the messages are shown.
    - `unheard`: numbers of nodes that leased some of the messages and gave no account.
    - `gaps`: (number of a node, from_ms, until_ms), in which some of the messages may have been handed over without an
      account. The number is 0 if no record says which node led.
    """

    hour_messages: HourMessages
    ledger: Ledger
    messages: Columns
    duplicates: Columns
    rows: I64
    deliveries: Deliveries
    unheard: tuple[int, ...]
    gaps: tuple[tuple[int, int, int], ...]

    def hand_overs_of(self, home: int) -> Deliveries:
        """Return the records of one message's hand-overs."""
        return take_rows(self.deliveries, np.flatnonzero(self.deliveries["home"] == np.uint64(home)))


def may_be_handed_over(hour_messages: HourMessages, moment_ms: int) -> bool:
    """True if any of the messages can have been handed over by the moment `moment_ms`. False if none is due by then and
    none has a settle record."""
    return (
        len(hour_messages.trail.settles) > 0 or int(hour_messages.trail.units["due_ms"].min()) <= moment_ms + AHEAD_MS
    )


def hand_over_time(hour_messages: HourMessages, moment_ms: int) -> HandOverTime:
    """Return the time in which the messages can have been handed over. It begins BEFORE_MS before the first of them
    fell due. It begins earlier if a clock that was set back wrote an earlier settle record. It ends AFTER_MS after the
    last message ended. It ends at `moment_ms` if that is earlier, or if a message has not ended."""
    settled_ms = np.concatenate([hour_messages.trail.settles["at_ms"], hour_messages.abroad["at_ms"]])
    due_ms = np.concatenate([hour_messages.trail.units["due_ms"], hour_messages.places["due_ms"]])
    earliest_ms = int(min(due_ms.min(), settled_ms[settled_ms > 0].min(initial=_NEVER_MS)))
    ended_ms = int(settled_ms.max(initial=0))
    until_ms = moment_ms if _open(hour_messages).any() else min(moment_ms, ended_ms + AFTER_MS)
    return HandOverTime(earliest_ms - BEFORE_MS, until_ms + 1, min(moment_ms, ended_ms + AFTER_SEVERAL_MS) + 1)


def handed_over_again(rows: Deliveries) -> U64:
    """Return the homes of messages with more than one recorded start of a hand-over, ascending."""
    homes, counts = np.unique(rows["home"][rows["kind"] == START], return_counts=True)
    several: U64 = homes[counts > 1]
    return several


def judge_story(
    hour_messages: HourMessages,
    accounts: Accounts,
    *,
    moment_ms: int,
    members: Iterable[int],
    topics: Mapping[int, Topic],
    restored: Restored | None = None,
) -> Judged:
    """Make the ledger of these messages from the accounts of the nodes. Their records were read at `moment_ms`.
    `members` are the members' numbers, `topics` those with settings. In a cluster that was made from a backup,
    `restored` says what the backup held."""
    settles, abroad = hour_messages.trail.settles, hour_messages.abroad
    named = {*np.unique(settles["node"]).tolist(), *np.unique(abroad["node"]).tolist()} - {0}
    covered = [
        (number, 0, 0, _covered_from(hour_messages, number, *begun), moment_ms + COVER_AFTER_MS)
        for number, begun in accounts.begun.items()
    ]
    terms = merge_terms([terms_of(accounts.edges), terms_of(accounts.rows)])
    holes, open_holes = (
        np.array([(number, 0, 0, *span) for number, *span in spans], SPAN)
        for spans in (accounts.holes, accounts.open_holes)
    )
    window_ms = max((whole_from_ms(first_ms) for first_ms, removed in accounts.begun.values() if removed), default=0)
    context = Context(
        from_ms=window_ms,
        until_ms=moment_ms,
        terms=terms,
        nodes=tuple(sorted({*members, *named} - {0})),
        covered=np.array(covered, SPAN),
        gaps=np.concatenate(
            [
                holes,
                closed(open_holes, terms),
                unrecorded(terms, window_ms),
                beyond(terms, moment_ms, accounts.until_ms, window_ms),
                _not_yet(hour_messages, moment_ms),
            ]
        ),
        topics=topics,
    )
    unheard = tuple(sorted(named - accounts.begun.keys()))
    had = restored.had(hour_messages.homes) if restored is not None else None
    ledger = judge(hour_messages.bucket(accounts.rows, had), context)
    order = np.lexsort((hour_messages.homes, hour_messages.trail.units["due_ms"]))
    touched = context.gaps[list(ledger.gaps)]
    gaps = list(zip(*(touched[name].tolist() for name in ("node", "from_ms", "until_ms")), strict=True))
    if restored is not None and ledger.restored:
        gaps.append((NOBODY, 0, restored.restored_ms))
    return Judged(
        hour_messages=hour_messages,
        ledger=ledger,
        messages=hour_messages.named(ledger.messages),
        duplicates=hour_messages.named(ledger.duplicates),
        rows=order,
        deliveries=accounts.rows,
        unheard=unheard,
        gaps=tuple(gaps),
    )


def _covered_from(hour_messages: HourMessages, number: int, first_ms: int, removed: bool) -> int:
    """Return the time from which on a node's account is whole, 0 for all time. `first_ms` is the time of its log's
    first record.

    If older files were removed by age (`removed`), the account begins with the log. If settle records say that the node
    leased before its log begins, an earlier log was lost with its directory. Then the account begins with the log too.
    """
    leased_ms = min(
        (
            int(rows["at_ms"][its].min())
            for rows in (hour_messages.trail.settles, hour_messages.abroad)
            if (its := (rows["what"] == LEASED) & (rows["node"] == number)).any()
        ),
        default=0,
    )
    if not first_ms:
        return _NEVER_MS if leased_ms else 0
    return whole_from_ms(first_ms) if removed or 0 < leased_ms < first_ms - AHEAD_MS else 0


def _not_yet(hour_messages: HourMessages, moment_ms: int) -> Rows:
    """Return a SPAN row for the time between `moment_ms` and the latest settle record, if that is later. A leader whose
    clock was ahead wrote it, and no account was searched for that time. Return no row if it is at most AHEAD_MS later.
    A planned lease does not count: its hand-over is still to come."""
    settles, abroad = hour_messages.trail.settles, hour_messages.abroad
    latest_ms = 0
    for rows in (settles, abroad):
        planned = (rows["what"] == LEASED) & (rows["code"] & PLANNED > 0)
        latest_ms = max(latest_ms, int(rows["at_ms"][~planned].max(initial=0)))
    ahead = latest_ms > moment_ms + AHEAD_MS
    return np.array([(NOBODY, 0, 0, moment_ms, latest_ms + 1)] if ahead else [], SPAN)


def _open(hour_messages: HourMessages) -> npt.NDArray[np.bool_]:
    """Return a boolean array, [n]: True for messages that had not ended."""
    what = np.zeros(len(hour_messages.homes), np.uint8)
    settles = hour_messages.trail.settles
    at = hour_messages.trail.units["global_index"].searchsorted(settles["global_index"])
    what[at] = settles["what"]  # in the order of the file: the newest stays
    open_: npt.NDArray[np.bool_] = KEEPS_HOUR[what]
    return open_
