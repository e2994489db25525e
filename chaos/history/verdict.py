"""The result of a checker: the promise, whether it held, the figures, and every fault found.

Each fault names the message or the term.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.history.promises import PROMISES

SHOWN = 20


@dataclass(frozen=True)
class Verdict:
    """The verdict on one promise, named by its short key. `figure` has the figures by name. `faults` has a line for
    each violation."""

    promise: str
    figure: Mapping[str, object]
    faults: list[str]

    @property
    def holds(self) -> bool:
        """True if no violation was found."""
        return not self.faults

    def describe(self) -> str:
        """The promise in a sentence with its figures. Below it stand the first SHOWN violations, if there are any."""
        sentence = PROMISES[self.promise].sentence
        lines = [
            f"{'held' if self.holds else 'BROKEN'}: {sentence} ({self.promise}: {_words(self.figure) or 'no figures'})"
        ]
        lines += [f"   {'first: ' if place == 0 else ''}{fault}" for place, fault in enumerate(self.faults[:SHOWN])]
        if len(self.faults) > SHOWN:
            lines.append(f"   ... and {len(self.faults) - SHOWN} more")
        return "\n".join(lines)


def _words(figure: Mapping[str, object]) -> str:
    """Figures as `acknowledged 500, lateness ms (p50 1.2, p99 3.4)`; those that are empty are left out."""
    parts = []
    for name, value in figure.items():
        text = f"({_words(value)})" if isinstance(value, Mapping) else str(value)
        if value is not None and text not in ("()", "[]"):
            parts.append(f"{name.replace('_', ' ')} {text}")
    return ", ".join(parts)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p99, p99.9 and max of these values, by name, rounded to 0.1. Empty for no values."""
    if not values:
        return {}
    p50, p99, p999 = np.percentile(np.asarray(values), (50, 99, 99.9))
    return {
        "p50": round(float(p50), 1),
        "p99": round(float(p99), 1),
        "p99.9": round(float(p999), 1),
        "max": round(float(max(values)), 1),
    }
