"""What holds for every bucket, put together from the first look: the window, the terms, which times are covered.

The window is the time for which both sides are retained. Messages fall out of the hours, and hand-overs out of the
delivery logs, each by age and never within the retention; so it begins where all those delivery logs are whole
that have lost their oldest files, and with all that is there if none has. It ends where the settle records do, on the
node that has most: delivery logs are written at once, the hours of a running node or its export up to a checkpoint
later, and a hand-over whose Lease may not be written yet cannot be judged. The ledger counts those as beyond the
records; the next run has them.

A node's account covers all of that time if its log is whole from file 1 on: what it then does not tell it did not do.
One thing contradicts it: settle records that say this node leased something before its log begins. Then the log was
lost, with its directory, and covers what it tells and no more. A member whose directory was not given covers nothing,
and a message that only it could have handed over is unknown, not lost.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

import numpy as np

from ledger.bucket import SPAN, Context, Rows, Topic
from ledger.terms import merge_terms
from ledger.unrecorded import beyond, closed, unrecorded
from reconcile.files.deliveries import Gap
from reconcile.files.inventory import Inventory
from reconcile.judge.first_pass import Account, Survey
from reconcile.judge.outside_records import Said
from storage.file.delivery_file import Ends, cut_short, whole_from_ms
from storage.format.position import EVER_MS

COVER_AFTER_MS: Final = 60_000
"""So long after the last record an account still counts as given: what would have been written by then was."""


def context_of(inventory: Inventory, survey: Survey, receipts: Said, options: Mapping[str, Any]) -> Context:
    """The context of one reckoning; `options` are fields of Context that are given from outside (late_ms ...)."""
    until_ms = max([survey.settled_ms, *(node.max_now_ms for node in inventory.nodes)]) or survey.delivered_ms
    numbers = node_numbers(inventory, survey.accounts)
    from_ms = _window_begin(survey.accounts)
    terms = merge_terms(survey.terms)
    skew_ms = int(options.get("skew_ms", Context(0, 0).skew_ms))
    covered = [
        (numbers[node.name], 0, 0, _covered_from(node.name, numbers, survey, skew_ms), until_ms + COVER_AFTER_MS)
        for node in inventory.nodes
        if node.name in numbers
    ]
    found = [gap for gap in (*survey.gaps, *_cut_short(survey.accounts)) if gap.node in numbers]
    gaps, open_gaps = (
        _spans([(numbers[gap.node], 0, 0, gap.from_ms, gap.until_ms) for gap in found if gap.open is is_open])
        for is_open in (False, True)
    )
    members = set(inventory.members) | set(numbers.values())
    return Context(
        from_ms=from_ms,
        until_ms=until_ms,
        terms=terms,
        nodes=tuple(sorted(members)),
        covered=_spans(covered),
        gaps=np.concatenate(
            [gaps, closed(open_gaps, terms), unrecorded(terms, from_ms), beyond(terms, until_ms, EVER_MS, from_ms)]
        ),
        topics={number: Topic.of(topic.name, topic.settings) for number, topic in inventory.topics.items()},
        held_topics=frozenset().union(*(node.held for node in inventory.nodes)),
        receipts_from_ms=receipts.from_ms,
        receipts_until_ms=receipts.until_ms,
        **options,
    )


def node_numbers(inventory: Inventory, accounts: list[Account]) -> dict[str, int]:
    """What records call each node that was given: by its catalog; where there is none, by its own log."""
    numbers = {node.name: node.number for node in inventory.nodes if node.number}
    by_id = {name: number for number, name in inventory.members.items()}
    for node in inventory.nodes:
        if node.name not in numbers and node.name in by_id:
            numbers[node.name] = by_id[node.name]
    for account in accounts:
        if account.node not in numbers and len(account.numbers) == 1:
            numbers[account.node] = account.numbers[0]
    return numbers


def _window_begin(accounts: list[Account]) -> int:
    first: dict[str, Ends] = {}
    for account in accounts:
        ends = account.ends
        if ends.first_ms and (account.node not in first or ends.file.sequence < first[account.node].file.sequence):
            first[account.node] = ends
    return max((whole_from_ms(ends.first_ms) for ends in first.values() if ends.file.sequence > 1), default=0)


def _covered_from(node: str, numbers: Mapping[str, int], survey: Survey, skew_ms: int) -> int:
    """Since when a node's account is whole, 0: since ever."""
    its = [account.ends for account in survey.accounts if account.node == node]
    begun_ms = min((ends.first_ms for ends in its if ends.first_ms), default=0)
    leased_ms = survey.leased_ms.get(numbers[node], 0)
    removed = bool(its) and min(ends.file.sequence for ends in its) > 1
    if begun_ms and (removed or (leased_ms and leased_ms < begun_ms - skew_ms)):
        return whole_from_ms(begun_ms)
    if not begun_ms and leased_ms:
        return survey.delivered_ms + survey.settled_ms + COVER_AFTER_MS  # it led, and has no log at all
    return 0


def _cut_short(accounts: list[Account]) -> list[Gap]:
    """As each node sees it of its own log (storage/query/delivery_search.py)."""
    logs = groupby(sorted(accounts, key=_place), lambda account: (account.node, account.store))
    return [Gap(node, *hole) for (node, _), its in logs for hole in cut_short(account.ends for account in its)]


def _place(account: Account) -> tuple[str, str, int]:
    return account.node, account.store, account.ends.file.sequence


def _spans(rows: list[tuple[int, int, int, int, int]]) -> Rows:
    return np.array(rows, SPAN)
