"""The upper part of the timeline's picture: a lane for every node with its time as leader, its faults in rows below.

Rows are packed from the top: a fault goes into the first one in which its bar and its name touch nothing. All sizes are
inches of the picture, so a size that fits one run's picture fits every run's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from chaos.report.timeline import FaultSpan, SeenTerm, Timeline
from reconcile.report.palette import AMBER, BLUE, FAINT, GREY, INK, PAPER, RED, TEAL, VIOLET

#: Family -> colour and its kinds. A kind without a family is grey.
_FAMILIES: Final = {
    "process fault": (RED, ("kill", "stop", "restart", "rolling", "wipe", "replace", "crash", "pause")),
    "network fault": (BLUE, ("partition", "cut", "loss", "delay", "duplicate", "bandwidth", "reorder", "flap")),
    "disk fault": (AMBER, ("power", "slow", "fail", "full", "flip", "torn", "zero", "truncate", "oldcopy")),
    "clock fault": (VIOLET, ("jump", "drift")),
    "planned transfer": (TEAL, ("transfer",)),
}
_COLOURS: Final = {kind: colour for colour, kinds in _FAMILIES.values() for kind in kinds}
LINKS: Final = "links"
_REIGN_IN, _ROW_IN, _BAR_IN, _AIR_IN = 0.2, 0.155, 0.09, 0.12
_LETTER_IN: Final = 0.066
_LEAST_IN: Final = 0.016
_SMALL: Final = 7


@dataclass(frozen=True)
class _Bar:
    """A fault in its row, inches from the lane's left end. Its name stands on the left where it would not fit on the
    right."""

    fault: FaultSpan
    name: str
    begin_in: float
    end_in: float
    name_left: bool

    @property
    def taken_in(self) -> tuple[float, float]:
        """The range (from, to) of bar and name together, in which no other bar of the row may be."""
        name_in = len(self.name) * _LETTER_IN + 0.1
        return (self.begin_in - name_in, self.end_in) if self.name_left else (self.begin_in, self.end_in + name_in)


@dataclass(frozen=True)
class Lane:
    """A node's lane, or the lane of all faults of links."""

    name: str
    rows: tuple[tuple[_Bar, ...], ...]

    @property
    def height_in(self) -> float:
        """The height of the whole lane: of the strip that shows leadership, of the rows, and of the empty space
        below."""
        return self.head_in + _AIR_IN + _ROW_IN * len(self.rows)

    @property
    def head_in(self) -> float:
        """The height of the strip that shows leadership."""
        return 0.0 if self.name == LINKS else _REIGN_IN


def lanes_of(timeline: Timeline, width_in: float) -> list[Lane]:
    """Return one lane for each node in order of names, and one for links with faults. `width_in` is the width of the
    whole run in the picture."""
    by_lane: dict[str, list[FaultSpan]] = {node: [] for node in timeline.nodes}
    for fault in timeline.faults:
        by_lane.setdefault(fault.node if fault.node in timeline.nodes else LINKS, []).append(fault)
    return [Lane(name, _packed(list(_bars(name, each, timeline, width_in)))) for name, each in by_lane.items()]


def _bars(lane: str, faults: Sequence[FaultSpan], timeline: Timeline, width_in: float) -> Iterator[_Bar]:
    inch_s = timeline.length_s / width_in
    for fault in sorted(faults, key=lambda each: each.begin_s):
        name = f"{fault.kind} {fault.node}" if lane == LINKS else fault.kind
        begin_in = fault.begin_s / inch_s
        end_s = timeline.length_s if fault.end_s is None else fault.end_s
        end_in = max(end_s / inch_s, begin_in + _LEAST_IN)
        yield _Bar(fault, name, begin_in, end_in, name_left=end_in + len(name) * _LETTER_IN > width_in)


def _packed(bars: Sequence[_Bar]) -> tuple[tuple[_Bar, ...], ...]:
    rows: list[list[_Bar]] = []
    for bar in bars:
        begin_in, end_in = bar.taken_in
        free = (row for row in rows if all(other.taken_in[1] < begin_in or end_in < other.taken_in[0] for other in row))
        row = next(free, None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    return tuple(map(tuple, rows))


def legend_of(timeline: Timeline) -> list[Patch]:
    """Return the entries of the legend: leadership, and each colour that the faults of this run use."""
    used = {_COLOURS.get(fault.kind, GREY) for fault in timeline.faults}
    patches = [Patch(color=INK, label="leads")]
    patches += [Patch(color=colour, label=name) for name, (colour, _) in _FAMILIES.items() if colour in used]
    return patches + ([Patch(color=GREY, label="other fault")] if GREY in used else [])


def draw_lanes(axes: Axes, timeline: Timeline, lanes: Sequence[Lane], width_in: float) -> None:
    """Draw the lanes from the top down. A unit of the axis is an inch."""
    total_in = top_in = sum(lane.height_in for lane in lanes)
    places = []
    for lane in lanes:
        places.append(top_in - (lane.head_in or _ROW_IN) / 2)
        if lane.head_in:
            _draw_node(axes, timeline, lane, top_in, timeline.length_s / width_in)
        for depth, row in enumerate(lane.rows):
            for bar in row:
                middle_in = top_in - lane.head_in - _ROW_IN * (depth + 0.5) - (0.05 if lane.head_in else 0)
                _draw_bar(axes, bar, middle_in, timeline.length_s / width_in)
        top_in -= lane.height_in
    axes.set_ylim(0, total_in)
    axes.set_yticks(places, [lane.name for lane in lanes])
    axes.tick_params(axis="y", colors=INK)
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)


def _draw_node(axes: Axes, timeline: Timeline, lane: Lane, top_in: float, inch_s: float) -> None:
    middle_in = top_in - _REIGN_IN / 2
    axes.plot([0, timeline.length_s], [middle_in] * 2, color=FAINT, linewidth=2.2, zorder=1, solid_capstyle="butt")
    for seen_term in timeline.seen_terms:
        if seen_term.node == lane.name:
            _draw_term(axes, seen_term, top_in, inch_s)
    for end in timeline.ends:
        if end.node == lane.name:
            axes.plot([end.at_s], [middle_in], "X", color=AMBER if end.expected else RED, markersize=6, zorder=4)


def _draw_term(axes: Axes, seen_term: SeenTerm, top_in: float, inch_s: float) -> None:
    width_s = max(seen_term.end_s - seen_term.begin_s, _LEAST_IN * inch_s)
    axes.broken_barh([(seen_term.begin_s, width_s)], (top_in - _REIGN_IN, _REIGN_IN), color=INK, zorder=2)
    text = next(
        (text for text in (f"term {seen_term.term}", str(seen_term.term)) if len(text) * _LETTER_IN < width_s / inch_s),
        "",
    )
    where = (seen_term.begin_s + width_s / 2, top_in - _REIGN_IN / 2 - 0.005)
    axes.text(*where, text, color=PAPER, fontsize=_SMALL, ha="center", va="center", zorder=3, clip_on=True)


def _draw_bar(axes: Axes, bar: _Bar, middle_in: float, inch_s: float) -> None:
    colour = _COLOURS.get(bar.fault.kind, GREY)
    width_s = (bar.end_in - bar.begin_in) * inch_s
    axes.broken_barh([(bar.fault.begin_s, width_s)], (middle_in - _BAR_IN / 2, _BAR_IN), color=colour, zorder=2)
    beside_in = bar.begin_in - 0.03 if bar.name_left else bar.end_in + 0.03
    axes.text(
        beside_in * inch_s,
        middle_in - 0.008,
        bar.name,
        color=colour,
        fontsize=_SMALL,
        ha="right" if bar.name_left else "left",
        va="center",
        zorder=3,
    )
