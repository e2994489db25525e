"""The picture of a demo: deliveries, lateness and duplicates of each tenth of a second, with the kill marked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.client.receivers import Received
from chaos.history.event import HandedOver
from reconcile.report.palette import AMBER, BLUE, RED, SOFT, style

BIN_MS: Final = 100
_SIZE_IN: Final = (9.0, 4.6)
_DPI: Final = 130


class Delivered(NamedTuple):
    """One delivery: its time and lateness in ms, and whether its message had come before."""

    at_ms: float
    late_ms: float
    again: bool


def deliveries(pulled: Sequence[HandedOver], pushed: Sequence[Received]) -> list[Delivered]:
    """Return the deliveries of both halves in the order of their time."""
    both = [(float(each.wall_ms), float(each.wall_ms - each.due_ms), each.message_id) for each in pulled]
    both += [(each.received_ms, each.late_ms, each.id or "") for each in pushed]
    seen: set[str] = set()
    made = []
    for at_ms, late_ms, name in sorted(both):
        made.append(Delivered(at_ms, late_ms, name in seen))
        seen.add(name)
    return made


def draw(made: Sequence[Delivered], killed_ms: float, path: Path) -> None:
    """Write the picture to `path`, in the format that its ending names. `made` is not empty."""
    begun_ms = made[0].at_ms
    at_s = np.array([(each.at_ms - begun_ms) / 1000 for each in made])
    late_ms = np.array([max(each.late_ms, 0.1) for each in made])
    again = np.array([each.again for each in made])
    edges = np.arange(0, at_s[-1] + 2 * BIN_MS / 1000, BIN_MS / 1000)
    with style():
        figure = Figure(figsize=_SIZE_IN, layout="constrained")
        rate, late, twice = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1.4))
        a_second = 1000 / BIN_MS
        rate.bar(edges[:-1], np.histogram(at_s, edges)[0] * a_second, BIN_MS / 1000, align="edge", color=BLUE)
        rate.set_title("deliveries a second")
        late.scatter(at_s, late_ms, s=1.5, color=AMBER, linewidths=0)
        late.set_yscale("log")
        late.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        late.set_title("lateness of each delivery, ms")
        twice.bar(edges[:-1], np.histogram(at_s[again], edges)[0], BIN_MS / 1000, align="edge", color=RED)
        twice.set_title("deliveries of messages that had come before, each tenth of a second")
        twice.set_xlabel("seconds")
        for axes in (rate, late, twice):
            _mark(axes, (killed_ms - begun_ms) / 1000)
        rate.annotate("kill -9 of the leader", ((killed_ms - begun_ms) / 1000, rate.get_ylim()[1]), (-5, -10),
                      textcoords="offset points", ha="right", color=SOFT)  # fmt: skip
        figure.savefig(path, dpi=_DPI)


def _mark(axes: Axes, at_s: float) -> None:
    axes.axvline(at_s, color=SOFT, linewidth=1, linestyle="--")
