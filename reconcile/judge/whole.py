"""Whether the data is whole enough for a message to be sent again.

A message is found lost because no account tells of a hand-over. An account that was not given, or that has a hole,
tells of none either, and the message would be sent to a receiver that had it. So every member's account must be there
without a hole, or what is lost is listed and not sent.
"""

from collections import defaultdict
from typing import Final

from reconcile.files.inventory import Inventory
from reconcile.files.problem import FOREIGN
from reconcile.judge.context import node_numbers
from reconcile.judge.first_pass import Survey

_NAMED_MAX: Final = 5
"""Files of one log that are named; of more only how many."""


def redeliver_refused(inventory: Inventory, surveyed: Survey) -> list[str]:
    """Why nothing may be sent again, a sentence each; empty if nothing speaks against it."""
    return [
        *_not_given(inventory),
        *_missing_files(inventory),
        *_damaged_files(inventory, surveyed),
        *_mixed_files(inventory, surveyed),
    ]


def _not_given(inventory: Inventory) -> list[str]:
    """Members whose directory or export is not among the data. Those that were removed are none any more."""
    newest = max(inventory.nodes, key=lambda node: node.applied_index, default=None)
    if newest is None or not newest.members:
        return ["no catalog that was given says who the members are"]
    given = {node.name for node in inventory.nodes}
    members = sorted(set(newest.members.values()) - newest.removed - given)
    return [f"no directory and no export of member {name} was given" for name in members]


def _missing_files(inventory: Inventory) -> list[str]:
    """Logs whose files do not follow one another. The oldest go by age, so a log may begin anywhere."""
    logs: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for source in inventory.deliveries:
        logs[source.node, source.store][source.sequence] = source.rows
    found = []
    for (node, _), files in sorted(logs.items()):
        first, last = min(files), max(files)
        lacking = [sequence for sequence in range(first, last) if not files.get(sequence)]
        if lacking:
            named = ", ".join(map(str, lacking)) if len(lacking) <= _NAMED_MAX else f"{len(lacking)} of them"
            found.append(f"the delivery log of {node} has files {first} to {last}, and lacks or finds empty {named}")
    return found


def _damaged_files(inventory: Inventory, surveyed: Survey) -> list[str]:
    """Files that are there and not as they were written."""
    problems = dict.fromkeys((*inventory.problems, *surveyed.problems))
    return [
        f"the delivery log of {problem.node} has a hole: {problem.file} is {problem.kind} ({problem.what})"
        for problem in problems
        if problem.file.startswith("deliveries/") and problem.kind != FOREIGN
    ]


def _mixed_files(inventory: Inventory, surveyed: Survey) -> list[str]:
    """Nodes whose files hold another node's records: its directory, or its LOCK, stands in two places."""
    numbers = node_numbers(inventory, surveyed.accounts)
    mixed: dict[str, set[int]] = defaultdict(set)
    for account in surveyed.accounts:
        mixed[account.node] |= set(account.numbers) - {numbers.get(account.node, 0)}
    names = inventory.members
    return [
        f"the delivery log of {node} has records of {names.get(number, f'#{number}')}"
        for node, others in sorted(mixed.items())
        for number in sorted(others)
    ]
