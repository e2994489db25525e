"""What a restored cluster does with messages that became due while it was not there: the rule moves on."""

from replication.command.overdue import OverdueCutoff
from storage.catalog.catalog import Catalog
from storage.catalog.overdue import OverdueRule


def apply_overdue_cutoff(catalog: Catalog, command: OverdueCutoff) -> OverdueRule | None:
    """Returns what is left to be done."""
    row = catalog.overdue_rule
    if row is not None and row.cutoff_ms is None and not command.done:
        catalog.set_overdue_rule(OverdueRule(last_ms=row.last_ms, cutoff_ms=command.cutoff_ms))
    elif row is not None and row.cutoff_ms == command.cutoff_ms and command.done:
        catalog.set_overdue_rule(None)
    return catalog.overdue_rule
