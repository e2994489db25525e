"""One figure of a benchmark, and how all of them are shown: a table for people, one JSON line for programs."""

import json
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """`value` in `unit`; `detail` holds the percentiles and what else belongs to it."""

    name: str
    value: float
    unit: str
    detail: dict[str, object] = field(default_factory=dict)


def show(rows: list[Row]) -> None:
    """Prints the table and the JSON line."""
    table = Table("figure", "value", "unit", "detail")
    for row in rows:
        detail = ", ".join(f"{name} {value}" for name, value in row.detail.items())
        table.add_row(row.name, f"{row.value:,.1f}" if row.value < 1_000 else f"{row.value:,.0f}", row.unit, detail)
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)
    print(json.dumps([asdict(row) for row in rows]))
