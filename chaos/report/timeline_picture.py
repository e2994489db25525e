"""The timeline as a picture: lanes of nodes with their leadership and faults, then rates, lateness and duplicates, on
one axis.

Where a term ended without a transfer, a thin line goes through the panels below the lanes, because that end caused what
follows it there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from chaos.report.timeline import Bins, Counts, TermChange, Timeline
from chaos.report.timeline_lanes import draw_lanes, lanes_of, legend_of
from reconcile.report.palette import AMBER, BLUE, INK, PAPER, RED, SKY, SOFT, TEAL, style, svg

_WIDTH_IN, _LEFT_IN, _RIGHT_IN = 13.5, 0.84, 0.2
_INSIDE_IN: Final = _WIDTH_IN - _LEFT_IN - _RIGHT_IN
_TOP_IN, _SPACE_IN, _BOTTOM_IN = 0.95, 0.42, 0.5
_PANELS_IN: Final = (1.7, 1.7, 1.2)
_MARGIN: Final = 0.004
_DPI: Final = 150
_BINS: Final = 360
_CAUSES: Final = {
    "failover": (RED, "failover"),
    "after_lease": (AMBER, "lease ended"),
    "unexplained": (INK, "unexplained"),
}
#: A light edge that keeps figures readable before bars.
_HALO: Final = [withStroke(linewidth=2.5, foreground=PAPER)]
#: Longer runs are shown in minutes.
_MINUTES_S: Final = 180


def draw(timeline: Timeline, title: str, paths: Sequence[Path]) -> None:
    """Write the picture to each path, by its ending: .svg, .png, or another format of matplotlib."""
    with style():
        figure = _figure(timeline, title)
        for path in paths:
            if path.suffix == ".svg":
                path.write_text(svg(figure), encoding="utf-8")
            else:
                figure.savefig(path, dpi=_DPI)


def _figure(timeline: Timeline, title: str) -> Figure:
    bins = timeline.bins(_BINS)
    run_in = _INSIDE_IN / (1 + 2 * _MARGIN)
    lanes = lanes_of(timeline, run_in)
    heights_in = [sum(lane.height_in for lane in lanes), *_PANELS_IN]
    height_in = sum(heights_in) + _SPACE_IN * len(_PANELS_IN) + _TOP_IN + _BOTTOM_IN
    figure = Figure(figsize=(_WIDTH_IN, height_in))
    axes: list[Axes] = []
    top_in = height_in - _TOP_IN
    for each_in in heights_in:
        box_in = (_LEFT_IN / _WIDTH_IN, (top_in - each_in) / height_in, _INSIDE_IN / _WIDTH_IN, each_in / height_in)
        axes.append(figure.add_axes(box_in, sharex=axes[0] if axes else None))
        top_in -= each_in + _SPACE_IN
    draw_lanes(axes[0], timeline, lanes, run_in)
    _draw_rates(axes[1], bins)
    _draw_lateness(axes[2], bins)
    _draw_duplicates(axes[3], timeline, bins)
    lost_s = [change.at_s - change.gap_s for change in timeline.changes if not change.planned]
    for panel in axes[1:]:
        for at_s in lost_s:
            panel.axvline(at_s, color=RED, linewidth=0.6, alpha=0.35 if len(lost_s) < 40 else 0.18, zorder=0.5)
    _draw_time(axes, timeline)
    _draw_head(figure, timeline, title, height_in)
    return figure


def _draw_head(figure: Figure, timeline: Timeline, title: str, height_in: float) -> None:
    """Draw the title, the figures of the run, and the colours of faults."""
    found = timeline.totals()
    late = found["lateness_ms"]
    assert isinstance(late, dict)
    said = (
        f"{found['acknowledged']:,} acknowledged",
        f"{found['handed_over']:,} deliveries",
        f"{found['faults']} faults",
        f"{found['terms']} terms",
        f"lateness p50 {late.get('p50', 0):,.0f} ms, p99 {late.get('p99', 0):,.0f} ms",
        f"{found['duplicates']:,} duplicates",
    )
    left = _LEFT_IN / _WIDTH_IN
    figure.text(left, 1 - 0.3 / height_in, title or "Timeline", fontsize=13, fontweight="bold", va="center")
    figure.text(left, 1 - 0.56 / height_in, "   ·   ".join(said), color=SOFT, va="center")
    figure.legend(
        handles=(handles := legend_of(timeline)),
        loc="upper right",
        bbox_to_anchor=(1 - _RIGHT_IN / _WIDTH_IN, 1 - 0.16 / height_in),
        ncols=len(handles),
        handlelength=1,
        handleheight=0.9,
        columnspacing=1.4,
        borderaxespad=0,
    )


def _draw_rates(axes: Axes, bins: Bins) -> None:
    axes.set_title("Messages a second")

    def stairs(counts: Counts, **look: Any) -> None:
        axes.stairs(counts / bins.width_s, bins.edges_s, **look)

    stairs(bins.acknowledged, fill=True, color=SKY, alpha=0.55, label="scheduled (acknowledged)")
    stairs(bins.handed_over, color=BLUE, linewidth=1.3, label="handed over", baseline=None)
    if bins.not_acknowledged.any():
        stairs(bins.not_acknowledged, fill=True, color=RED, alpha=0.8, label="refused or unknown")
    axes.set_ylim(0, None)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _legend(axes)


def _draw_lateness(axes: Axes, bins: Bins) -> None:
    axes.set_title("Lateness of first attempts")
    middle_s = bins.edges_s[:-1] + bins.width_s / 2
    p50, p99, most = (np.maximum(values, 1.0) for values in (bins.p50_ms, bins.p99_ms, bins.max_ms))
    axes.fill_between(middle_s, p50, p99, color=TEAL, alpha=0.22, linewidth=0, step="mid", label="p50 to p99")
    axes.step(middle_s, p50, color=TEAL, linewidth=1.4, where="mid", label="p50")
    axes.plot(middle_s, most, ".", color=TEAL, markersize=2.6, alpha=0.7, label="latest")
    axes.set_yscale("log")
    highest = float(np.nanmax(most)) if np.isfinite(most).any() else 1.0
    axes.set_ylim(0.8, max(150.0, highest * 2))
    axes.yaxis.set_major_locator(LogLocator(10))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_milliseconds))
    _legend(axes)


def _draw_duplicates(axes: Axes, timeline: Timeline, bins: Bins) -> None:
    axes.set_title("Duplicates, by cause")
    below = np.zeros(len(bins.edges_s) - 1)
    width_s = max(bins.width_s, timeline.length_s * _MARGIN)
    middle_s = bins.edges_s[:-1] + bins.width_s / 2
    for cause, (colour, called) in _CAUSES.items():
        counts = bins.repeats[cause]
        label = f"{called}: {counts.sum():,}"
        axes.bar(middle_s, counts, width_s, below, color=colour, label=label, linewidth=0)
        below = below + counts
    for change in _told(timeline):
        text = f"{change.failover} in {change.span_ms} ms" if change.failover > 1 else "1"
        top = below[min(int(change.at_s / bins.width_s), len(below) - 1)]
        look: dict[str, Any] = {"fontsize": 7, "color": RED, "ha": "center", "path_effects": _HALO}
        axes.annotate(text, (change.at_s, max(top, change.failover)), (0, 3), textcoords="offset points", **look)
    axes.set_ylim(0, max(4.0, float(below.max()) * 1.25))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    _legend(axes)


def _told(timeline: Timeline) -> list[TermChange]:
    """The term changes whose figures are written into the picture: those with the most failover duplicates that are not
    too close to each other."""
    told: list[TermChange] = []
    for change in sorted(timeline.changes, key=lambda each: each.failover, reverse=True):
        if change.failover and all(abs(other.at_s - change.at_s) > timeline.length_s * 0.055 for other in told):
            told.append(change)
    return told


def _legend(axes: Axes) -> None:
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=4,
        borderaxespad=0.3,
        handlelength=1.2,
        columnspacing=1.4,
    )


def _draw_time(axes: Sequence[Axes], timeline: Timeline) -> None:
    """Draw one axis of time, under the last panel."""
    long = timeline.length_s > _MINUTES_S
    margin_s = timeline.length_s * _MARGIN
    axes[-1].set_xlim(-margin_s, timeline.length_s + margin_s)
    for panel in axes[:-1]:
        panel.tick_params(labelbottom=False)
    axes[-1].xaxis.set_major_locator(MaxNLocator(14, steps=[1, 2, 3, 6, 10] if long else [1, 2, 5, 10]))
    axes[-1].xaxis.set_major_formatter(FuncFormatter(_clock if long else _plain))
    axes[-1].set_xlabel("minutes:seconds since the start" if long else "seconds since the start")


def _milliseconds(value: float, _: object) -> str:
    return f"{value:g} ms" if value < 1_000 else f"{value / 1_000:g} s"


def _clock(value: float, _: object) -> str:
    return f"{int(value // 60)}:{int(value % 60):02d}"


def _plain(value: float, _: object) -> str:
    return f"{value:g}"
