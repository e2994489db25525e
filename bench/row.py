"""A figure of a benchmark with its target, and the output of all figures: a table for people, a JSON line for programs.

Figures with the same `figure` and different `system` were measured with the same bodies and the same concurrency. Only
such figures are comparable. So the row of a peer (another system) also has the ratio of our figure to its own.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table

OURS = "hourwheel"


@dataclass(frozen=True)
class Target:
    """A promised bound: at least (a rate) or at most (a time, a size)."""

    bound: float
    at_least: bool

    def reached_by(self, value: float) -> bool:
        """True if the value keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:,g}"


@dataclass(frozen=True)
class Row:
    """A figure: `value` in `unit`, measured over `took_s` seconds. `detail` holds percentiles and other facts.

    `value` None: not measured, and `detail` says why ("missing": a peer that is not installed).
    """

    figure: str
    value: float | None
    unit: str
    took_s: float = 0.0
    target: Target | None = None
    system: str = OURS
    detail: dict[str, object] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """True if the target is reached. None without a target or a value."""
        return None if self.target is None or self.value is None else self.target.reached_by(self.value)


def at_least(bound: float) -> Target:
    """Return a target that a value reaches if it is not below `bound`, for rates."""
    return Target(bound, True)


def at_most(bound: float) -> Target:
    """Return a target that a value reaches if it is not above `bound`, for times and sizes."""
    return Target(bound, False)


def ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """Return our figure divided by the peer's. None for a row of ours, and for a peer's figure that we do not have."""
    if row.system == OURS or not row.value:
        return None
    ours = next((each.value for each in rows if each.system == OURS and each.figure == row.figure), None)
    return None if ours is None else ours / row.value


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if value < 1_000 else f"{value:,.0f}"


def told(rows: Sequence[Row]) -> list[Row]:
    """Print each row on stderr at once, and return the rows. So if a long measurement fails later, the rows before the
    failure were shown."""
    for row in rows:
        bound = f" ({row.target})" if row.target else ""
        print(f"  {row.figure}: {_text(row.value)} {row.unit}{bound} {row.detail or ''}", file=sys.stderr, flush=True)
    return list(rows)


def document(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return the rows for programs: each with `reached` and, for peers, `ours_over_theirs`."""
    found = []
    for row in rows:
        fields = asdict(row) | {"target": str(row.target) if row.target else None, "reached": row.reached}
        found.append(fields | {"ours_over_theirs": ratio(row, rows)})
    return found


def show(rows: Sequence[Row]) -> None:
    """Print the table and the JSON line."""
    table = Table("figure", "system", "value", "unit", "target", "reached", "ours/theirs", "over s", "detail")
    for row in rows:
        detail = ", ".join(f"{name} {value}" for name, value in row.detail.items())
        reached = {None: "", True: "yes", False: "NO"}[row.reached]
        share = ratio(row, rows)
        table.add_row(
            *(row.figure, row.system, _text(row.value), row.unit, str(row.target or ""), reached),
            *("" if share is None else f"{share:.2f}", f"{row.took_s:.1f}", detail),
        )
    console = Console()
    console.width = max(console.width, 180)
    console.print(table)
    print(json.dumps(document(rows)))
