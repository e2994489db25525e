"""What holds for every bucket, put together from the first look: the window, the terms, which times are covered.

The window is the time for which both sides are retained. Messages fall out of the hours, and hand-overs out of the
delivery logs, each by age and never within the retention; so it begins where the first node's delivery log begins that
has lost its oldest files, and with all that is there if none has. It ends where the settle records do, on the node that
has most: delivery logs are written at once, the hours of a running node or its export up to a checkpoint later, and a
hand-over whose Lease may not be written yet cannot be judged. The ledger counts those as beyond the records; the next
run has them.

A node's account covers all of that time if its log is whole from file 1 on: what it then does not tell it did not do.
One thing contradicts it: settle records that say this node leased something before its log begins. Then the log was
lost, with its directory, and covers what it tells and no more. A member whose directory was not given covers nothing,
and a message that only it could have handed over is unknown, not lost.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ledger.bucket import SPAN, Context, Rows, Topic
from ledger.terms import merge_terms
from ledger.unrecorded import closed, unrecorded
from reconcile.inventory import Inventory
from reconcile.read_deliveries import Gap
from reconcile.receipts import Said
from reconcile.survey import Account, Survey
from storage.position import HOUR_MS

_EVER_MS: Final = 1 << 62
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
        gaps=np.concatenate([gaps, closed(open_gaps, terms), unrecorded(terms, from_ms)]),
        topics={number: _topic(topic.name, topic.settings) for number, topic in inventory.topics.items()},
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
    first: dict[str, Account] = {}
    for account in accounts:
        if account.first_ms and (account.node not in first or account.sequence < first[account.node].sequence):
            first[account.node] = account
    return max((account.first_ms for account in first.values() if account.sequence > 1), default=0)


def _covered_from(node: str, numbers: Mapping[str, int], survey: Survey, skew_ms: int) -> int:
    """Since when a node's account is whole, 0: since ever."""
    its = [account for account in survey.accounts if account.node == node]
    begun_ms = min((account.first_ms for account in its if account.first_ms), default=0)
    leased_ms = survey.leased_ms.get(numbers[node], 0)
    removed = bool(its) and min(account.sequence for account in its) > 1
    if begun_ms and (removed or (leased_ms and leased_ms < begun_ms - skew_ms)):
        return begun_ms
    if not begun_ms and leased_ms:
        return survey.delivered_ms + survey.settled_ms + COVER_AFTER_MS  # it led, and has no log at all
    return 0


def _cut_short(accounts: list[Account]) -> list[Gap]:
    """Where a file goes on with one that has lost its end, or is gone; as the nodes see it (delivery_search.py)."""
    gaps: list[Gap] = []
    accounts = sorted(accounts, key=lambda account: (account.node, account.store, account.sequence))
    last_ms = 0
    for before, account in pairwise(accounts):
        if (account.node, account.store) != (before.node, before.store):
            last_ms = 0
            continue
        last_ms = before.last_ms or last_ms
        there = before.rows if before.sequence + 1 == account.sequence else 0
        if there < account.before:
            next_ms = account.first_ms + 1 if account.first_ms else _EVER_MS
            gaps.append(Gap(account.node, last_ms, max(next_ms, (before.hour + 1) * HOUR_MS)))
    return gaps


def _spans(rows: list[tuple[int, int, int, int, int]]) -> Rows:
    return np.array(rows, SPAN)


def _topic(name: str, settings: Mapping[str, Any]) -> Topic:
    return Topic(name, push=settings.get("mode") == "push", strict=settings.get("handover") == "strict")
