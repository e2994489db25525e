"""Applies OverdueCutoff to the overdue rule. In a restored cluster this rule says that messages due before a moment are
given up.
"""

from replication.apply.applying import Applying
from replication.command.overdue import OverdueCutoff
from storage.tables.overdue import OverdueRule


def apply_overdue_cutoff(applying: Applying, command: OverdueCutoff) -> OverdueRule | None:
    """Set the moment of the overdue rule if it has none yet. If the command has `done` and the same moment, remove the
    rule.

    Returns the rule as it is afterwards, None if there is none.
    """
    catalog = applying.store.catalog
    row = catalog.overdue_rule
    if row is not None and row.cutoff_ms is None and not command.done:
        catalog.set_overdue_rule(OverdueRule(last_ms=row.last_ms, cutoff_ms=command.cutoff_ms))
    elif row is not None and row.cutoff_ms == command.cutoff_ms and command.done:
        catalog.set_overdue_rule(None)
    return catalog.overdue_rule
