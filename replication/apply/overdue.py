"""How a restored cluster moves on the rule about messages that became due before the restore."""

from replication.apply.applying import Applying
from replication.command.overdue import OverdueCutoff
from storage.tables.overdue import OverdueRule


def apply_overdue_cutoff(applying: Applying, command: OverdueCutoff) -> OverdueRule | None:
    """Move the rule on. Return the rest of it that is still to be done."""
    catalog = applying.store.catalog
    row = catalog.overdue_rule
    if row is not None and row.cutoff_ms is None and not command.done:
        catalog.set_overdue_rule(OverdueRule(last_ms=row.last_ms, cutoff_ms=command.cutoff_ms))
    elif row is not None and row.cutoff_ms == command.cutoff_ms and command.done:
        catalog.set_overdue_rule(None)
    return catalog.overdue_rule
