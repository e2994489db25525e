"""The result of a checker: the promise, whether it held, the figure, and every violation with its message or term."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

SHOWN = 20


@dataclass(frozen=True)
class Verdict:
    """The promise holds if there is no violation."""

    promise: str
    figure: Mapping[str, object]
    faults: list[str]

    @property
    def holds(self) -> bool:
        """True if no violation was found."""
        return not self.faults

    def describe(self) -> str:
        """One line, and the first violations below it."""
        lines = [f"{self.promise}: {'holds' if self.holds else 'BROKEN'} {dict(self.figure)}"]
        lines += [f"   {fault}" for fault in self.faults[:SHOWN]]
        if len(self.faults) > SHOWN:
            lines.append(f"   ... and {len(self.faults) - SHOWN} more")
        return "\n".join(lines)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p99, p99.9 and max, rounded to 0.1. Empty for no values."""
    if not values:
        return {}
    p50, p99, p999 = np.percentile(np.asarray(values), (50, 99, 99.9))
    return {
        "p50": round(float(p50), 1),
        "p99": round(float(p99), 1),
        "p99.9": round(float(p999), 1),
        "max": round(float(max(values)), 1),
    }
