"""The pictures of the report: lateness, hand-overs over time, each change of terms, and what the records cover.

Each takes a part of report.json and gives a figure, so a picture can be drawn again from the file alone.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from reconcile.report.palette import AMBER, BLUE, FAINT, INK, RED, SKY, SOFT, TEAL
from reconcile.report.words import CAUSES, SPAN_MAX_MS

Document = Mapping[str, Any]

_WIDTH_IN: Final = 9.6
#: A change is drawn from so long before its begin to so long after it, ms.
_NEAR_MS: Final = (-1_500, 1_000)
_COLUMNS: Final = 3
_LATE_STEPS_MS: Final = np.array(
    [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 2_000, 5_000, 10_000, 30_000]
    + [60_000, 600_000, 3_600_000, 86_400_000, 2**62]
)


def lateness(figures: Document) -> Figure:
    """How many first hand-overs were how late."""
    figure, axes = _figure(2.5)
    classes = np.array(figures["late_classes"], np.int64).reshape(-1, 2)
    counts = np.histogram(classes[:, 0], _LATE_STEPS_MS, weights=classes[:, 1])[0]
    if figures["early"]:
        axes.bar([-1], [figures["early"]], 0.82, color=RED)
        axes.text(-1, figures["early"], "early", color=RED, ha="center", va="bottom", fontsize=7.5)
    last = int(np.flatnonzero(counts).max(initial=7)) + 1
    axes.bar(np.arange(last), counts[:last], 0.82, color=TEAL)
    axes.set_xticks(
        np.arange(-0.5, last + 0.5), [_brief(step).removesuffix(" ms") for step in _LATE_STEPS_MS[: last + 1].tolist()]
    )
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylim(0, max(10.0, float(counts.max(initial=1))) * 2)
    _counts(axes)
    axes.set_xlabel("ms late")
    shown = [(name, value) for name, value in figures["lateness_ms"].items() if value is not None and name != "p90"]
    for _, value in shown:
        place = _place(float(value))
        axes.axvline(place, color=INK, linewidth=0.8, alpha=0.6, dashes=(3, 2))
    said = ", ".join(f"{name} {_brief(value)}" for name, value in shown)
    axes.set_title("First hand-overs by lateness")
    axes.annotate(said, (1, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", ha="right", color=SOFT)
    return figure


def _place(value_ms: float) -> float:
    """Where a lateness stands among the bars."""
    place = int(np.searchsorted(_LATE_STEPS_MS, value_ms, "right")) - 1
    if place < 0:
        return -1.0
    low, high = float(_LATE_STEPS_MS[place]), float(_LATE_STEPS_MS[place + 1])
    return place - 0.5 + (value_ms - low) / (high - low)


def over_time(figures: Document, term_changes: Sequence[Document]) -> Figure:
    """Hand-overs a second, lateness and duplicates, on one axis of time; lines where a term began."""
    bins = figures["over_time"]
    count = len(bins["handed_over"])
    edges_s = (bins["from_ms"] + np.arange(count + 1) * bins["step_ms"]) / 1000
    figure = Figure(figsize=(_WIDTH_IN, 5.6))
    rate, late, again = figure.subplots(3, 1, sharex=True, height_ratios=(1.2, 1.5, 1))
    figure.subplots_adjust(left=0.075, right=0.975, top=0.94, bottom=0.09, hspace=0.42)
    rate.set_title("First hand-overs a second")
    rate.stairs(np.array(bins["handed_over"]) * 1000 / bins["step_ms"], edges_s, fill=True, color=SKY, alpha=0.6)
    rate.set_ylim(0, None)
    _counts(rate)
    _late_over_time(late, bins, edges_s)
    again.set_title("Duplicates")
    below = np.zeros(count)
    for cause, counts in bins["duplicates"].items():
        if any(counts):
            said = CAUSES[cause]
            again.bar(edges_s[:-1], counts, np.diff(edges_s), below, color=said.colour, align="edge", label=said.title)
            below = below + np.array(counts)
    again.set_ylim(0, max(4.0, float(below.max(initial=0)) * 1.2))
    _counts(again)
    if below.any():
        _legend(again)
    for axes in (rate, late, again):
        for change in (change for change in term_changes if change["at_ms"]):
            axes.axvline(change["at_ms"] / 1000, color=RED, linewidth=0.6, alpha=0.4, zorder=0.5)
    again.set_xlim(edges_s[0], edges_s[-1])
    _time_axis(again, edges_s[-1] - edges_s[0])
    return figure


def _late_over_time(axes: Axes, bins: Document, edges_s: np.ndarray[Any, Any]) -> None:
    axes.set_title("Lateness of first hand-overs")
    middle_s = (edges_s[:-1] + edges_s[1:]) / 2
    p50, p99 = (np.maximum(np.array(bins[name], np.float64), 1.0) for name in ("late_p50_ms", "late_p99_ms"))
    most = np.where(np.array(bins["handed_over"]) > 0, np.maximum(bins["late_max_ms"], 1.0), np.nan)
    axes.fill_between(middle_s, p50, p99, color=TEAL, alpha=0.22, linewidth=0, step="mid", label="p50 to p99")
    axes.step(middle_s, p50, color=TEAL, linewidth=1.3, where="mid", label="p50")
    axes.plot(middle_s, most, ".", color=TEAL, markersize=2.6, alpha=0.7, label="latest")
    axes.set_yscale("log")
    axes.set_ylim(0.8, max(150.0, float(np.nanmax(most, initial=1.0)) * 2))
    axes.yaxis.set_major_locator(LogLocator(10))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _brief(value)))
    _legend(axes)


def around(changes: Sequence[Document]) -> Figure:
    """A small picture for each change of terms: first hand-overs before and after, and below every failover duplicate
    from the moment in which it was made to that in which it was made again.
    """
    rows = -(-len(changes) // _COLUMNS)
    height_in = 1.95 * rows + 0.45
    figure = Figure(figsize=(_WIDTH_IN, height_in))
    all_axes = figure.subplots(rows, _COLUMNS, squeeze=False, sharex=True)
    figure.subplots_adjust(
        left=0.05, right=0.985, top=1 - 0.3 / height_in, bottom=0.42 / height_in, hspace=0.5, wspace=0.17
    )
    for place, axes in enumerate(all_axes.flat):
        if place < len(changes):
            _draw_change(axes, changes[place])
        else:
            axes.set_visible(False)
    for place in range(max(0, len(changes) - _COLUMNS), len(changes)):
        axes = all_axes.flat[place]
        axes.tick_params(labelbottom=True)
    figure.supxlabel("ms from the begin of the new term", fontsize=8.5, color=SOFT, y=0.02)
    return figure


def _draw_change(axes: Axes, change: Document) -> None:
    step_ms = change["step_ms"]
    edges_ms = change["from_ms"] + np.arange(len(change["earlier"]) + 1) * step_ms
    earlier, later = np.array(change["earlier"]), np.array(change["later"])
    axes.stairs(earlier, edges_ms, fill=True, color=INK, alpha=0.75)
    axes.stairs(later, edges_ms, fill=True, color=SKY, alpha=0.85)
    inside = (edges_ms[:-1] >= _NEAR_MS[0]) & (edges_ms[1:] <= _NEAR_MS[1])
    top = max(4.0, float(np.maximum(earlier, later)[inside].max(initial=0)) * 1.15)
    depth = top * 0.34
    if change["pairs_ms"]:
        made_ms, again_ms = np.array(change["pairs_ms"], np.float64).T
        y = -depth * (0.25 + 0.65 * (np.arange(len(made_ms)) + 0.5) / len(made_ms))
        broken = np.full(len(made_ms), np.nan)
        lines = (np.stack(each, 1).ravel() for each in ((made_ms, again_ms, broken), (y, y, broken)))
        axes.plot(*lines, color=RED, linewidth=0.5, alpha=0.5)
        axes.plot(made_ms, y, ".", color=INK, markersize=2.4)
        axes.plot(again_ms, y, ".", color=RED, markersize=2.4)
    axes.axhline(0, color=SOFT, linewidth=0.6)
    axes.axvline(0, color=RED, linewidth=0.8, alpha=0.6, zorder=0.5)
    axes.set_ylim(-depth, top)
    axes.set_xlim(*_NEAR_MS)
    axes.set_yticks([tick for tick in MaxNLocator(3, integer=True).tick_values(0, top) if 0 <= tick <= top])
    title = f"term {change['from_term']} to {change['term']}"
    axes.set_title(title, fontsize=8.5, pad=4)
    said = "no duplicates" if not change["failover"] else f"{change['failover']} in {change['span_ms']} ms"
    gap = "" if change["gap_ms"] is None else f"gap {change['gap_ms']:,} ms, "
    wide = change["failover"] and change["span_ms"] > SPAN_MAX_MS
    look: dict[str, Any] = {"ha": "right", "fontsize": 7.5, "color": RED if wide else SOFT}
    axes.annotate(f"{gap}{said}", (1, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", **look)


def covered(nodes: Sequence[Document], terms: Sequence[Document], span_ms: tuple[int, int]) -> Figure:
    """A lane for each node: when its account of hand-overs is given, its holes, and above it the terms it led."""
    from_ms, until_ms = span_ms
    height_in = 0.5 * len(nodes) + 0.6
    figure = Figure(figsize=(_WIDTH_IN, height_in))
    axes = figure.add_axes((0.075, 0.42 / height_in, 0.9, 1 - 0.5 / height_in))
    least_s = (until_ms - from_ms) / 1000 * 0.0012
    for place, node in enumerate(nodes):
        y = -float(place)
        for begin_ms, end_ms in node.get("covered", ()):
            low, high = max(begin_ms, from_ms) / 1000, min(end_ms, until_ms) / 1000
            if high > low:
                axes.broken_barh([(low, high - low)], (y - 0.36, 0.2), color=FAINT)
        for begin_ms, end_ms in node.get("gaps", ()):
            width = max((end_ms - begin_ms) / 1000, least_s)
            axes.broken_barh([(begin_ms / 1000, width)], (y - 0.36, 0.2), color=AMBER)
        for term in terms:
            if term["node"] == node["node"] and term["begun_ms"]:
                end_ms = max(term.get("ended_ms") or 0, term.get("seen_ms") or 0, term["begun_ms"])
                low, high = max(term["begun_ms"], from_ms) / 1000, min(end_ms, until_ms) / 1000
                if high >= low:
                    axes.broken_barh(
                        [(low, max(high - low, least_s))], (y - 0.1, 0.36), color=INK if term["term"] % 2 else BLUE
                    )
    axes.set_ylim(-len(nodes) + 0.45, 0.45)
    axes.set_yticks([-place for place in range(len(nodes))], [node["node"] for node in nodes])
    axes.tick_params(axis="y", colors=INK)
    axes.grid(False)
    axes.set_xlim(from_ms / 1000, until_ms / 1000)
    _time_axis(axes, (until_ms - from_ms) / 1000)
    return figure


def _figure(height_in: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH_IN, height_in))
    axes = figure.add_axes((0.075, 0.5 / height_in, 0.9, 1 - 0.85 / height_in))
    return figure, axes


def _counts(axes: Axes) -> None:
    """Whole numbers with commas, few of them."""
    if axes.get_yscale() == "linear":
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _legend(axes: Axes) -> None:
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=6, borderaxespad=0.3, handlelength=1.2, columnspacing=1.4
    )


def _time_axis(axes: Axes, length_s: float) -> None:
    """UTC clock times on seconds since the epoch."""
    steps = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
    step = next((step for step in steps if length_s / step <= 9), 86_400 * max(1, round(length_s / 86_400 / 9)))
    low, high = axes.get_xlim()
    axes.set_xticks(np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 43_200 else "%b %d"

    def clock(value: float, _: object) -> str:
        text = datetime.fromtimestamp(value, UTC).strftime(form)
        return f"{text}.{round(value % 1 * 10)}" if step < 1 else text

    axes.xaxis.set_major_formatter(FuncFormatter(clock))
    day = datetime.fromtimestamp(low, UTC).strftime("%Y-%m-%d")
    axes.set_xlabel(f"UTC, {day}" if step < 43_200 else "UTC")


def _brief(value_ms: float) -> str:
    """`3 ms`, `1.5 s`, `10 min`, `2 h`."""
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if value_ms >= unit:
            return f"{value_ms / unit:g} {name}" if value_ms < 2**60 else ""
    return f"{value_ms:g} ms"
