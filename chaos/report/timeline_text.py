"""The timeline for a terminal: a lane for every node, sparklines below, then all events in order of time.

    seconds     0                             4.2                             8.4
    n1          ━━━━━━━━━━━━━━━kill░░░░░░░░░░░···································
    n2          ···················━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    scheduled   ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▂ ▁▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇  999/s

`━` leads, `·` does not. A fault's name stands from its begin to its end. Each higher block of lateness is three times
as late.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from chaos.report.timeline import Counts, FaultSpan, Floats, Timeline

_COLUMNS: Final = 96
_LABEL: Final = 12
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_LEADS, _FOLLOWS, _HURT = "━", "·", "░"


def describe(timeline: Timeline) -> str:
    """The whole text, without a newline at its end."""
    return "\n".join([_summary(timeline), "", *_lanes(timeline), *_sparks(timeline), "", *_story(timeline)])


def _summary(timeline: Timeline) -> str:
    found = timeline.totals()
    late = found["lateness_ms"]
    assert isinstance(late, dict)
    lateness = ", ".join(f"{name} {value:,g} ms" for name, value in late.items()) or "nothing handed over"
    return "\n".join(
        (
            f"{timeline.length_s:.1f} s, {found['faults']} faults, {found['terms']} terms: {found['acknowledged']:,} "
            f"acknowledged, {found['handed_over']:,} deliveries of {found['messages']:,} messages",
            f"duplicates {found['duplicates']:,} (failover {found['failover']:,}, at most {found['span_ms_max']} ms; "
            f"lease ended {found['after_lease']:,}; unexplained {found['unexplained']:,}), "
            f"after a failed attempt {found['retried']:,}",
            f"lateness {lateness}",
        )
    )


def _lanes(timeline: Timeline) -> Iterator[str]:
    """The axis, a lane for each node, and one for links with faults."""
    second = timeline.length_s / _COLUMNS
    axis = "".join(f"{place * second:<{_COLUMNS // 4}.1f}" for place in range(0, _COLUMNS, _COLUMNS // 4))
    yield f"{'seconds':<{_LABEL}}{axis}{timeline.length_s:.1f}"
    for node in timeline.nodes:
        lane = [_FOLLOWS] * _COLUMNS
        for seen_term in timeline.seen_terms:
            if seen_term.node == node:
                _fill(lane, seen_term.begin_s / second, seen_term.end_s / second, "", _LEADS)
        yield _lane(node, lane, [fault for fault in timeline.faults if fault.node == node], timeline)
    others = [fault for fault in timeline.faults if fault.node not in timeline.nodes]
    if others:
        yield _lane("links", [" "] * _COLUMNS, others, timeline)


def _lane(name: str, lane: list[str], faults: Sequence[FaultSpan], timeline: Timeline) -> str:
    second = timeline.length_s / _COLUMNS
    for fault in faults:
        end_s = timeline.length_s if fault.end_s is None else fault.end_s
        _fill(lane, fault.begin_s / second, end_s / second, fault.kind, _HURT)
    return f"{name:<{_LABEL}}{''.join(lane)}"


def _fill(lane: list[str], begin: float, end: float, name: str, rest: str) -> None:
    """Write `name`, then `rest`, from one column to another: at least one column."""
    first = min(int(begin), _COLUMNS - 1)
    for place in range(first, max(first + 1, min(int(np.ceil(end)), _COLUMNS))):
        lane[place] = name[place - first] if place - first < len(name) else rest


def _sparks(timeline: Timeline) -> Iterator[str]:
    """The lines of rates, lateness and duplicates. Rates are blocks of one to eight eighths, where six is the 95th
    percentile. A block of lateness is higher by one for each factor of about three. Duplicates are digits."""
    edges_s = np.linspace(0, timeline.length_s, _COLUMNS + 1)

    def counts(times_s: Floats) -> Counts:
        return np.histogram(times_s, edges_s)[0]

    for name, times_s in (("scheduled", timeline.acknowledged_s), ("handed over", timeline.handed_over_s)):
        found = counts(times_s)
        levels = np.minimum(8, np.ceil(found / max(1.0, np.percentile(found, 95)) * 6).astype(int))
        mean = len(times_s) / timeline.length_s
        yield f"{name:<{_LABEL}}{''.join(_BLOCKS[level] for level in levels)}  mean {mean:,.0f}/s"
    places = np.minimum((timeline.first_s / timeline.length_s * _COLUMNS).astype(int), _COLUMNS - 1)
    line = []
    for place in range(_COLUMNS):
        inside = timeline.lateness_ms[places == place]
        worst = float(np.percentile(inside, 99)) if len(inside) else 0.0
        line.append(_BLOCKS[min(8, 1 + max(0, int(np.ceil(2 * np.log10(max(worst, 1.0))))))] if len(inside) else " ")
    yield f"{'late, p99':<{_LABEL}}{''.join(line)}  each block 3 times as late: ▁ <= 1 ms, ▅ 100 ms, ▇ 1 s"
    again = sum(counts(times_s) for cause, times_s in timeline.repeats_s.items() if cause != "retried")
    digits = "".join("·" if not each else str(each) if each < 10 else "+" for each in np.asarray(again).tolist())
    yield f"{'duplicates':<{_LABEL}}{digits}  +: ten or more"


def _story(timeline: Timeline) -> Iterator[str]:
    """Every fault, its end, and every change of leader, a line each."""
    lines: list[tuple[float, str]] = []
    for fault in timeline.faults:
        what = " ".join(filter(None, (fault.kind, fault.node, fault.detail)))
        role = f" ({fault.role})" if fault.node in timeline.nodes else ""
        lasted = "not over at the end" if fault.end_s is None else f"for {fault.end_s - fault.begin_s:.2f} s"
        lines.append((fault.begin_s, f"{what}{role}, {lasted}"))
    for end in timeline.ends:
        text = f"{end.node} ends by itself{' as it should' if end.expected else ''}: {end.error}"
        lines.append((end.at_s, text))
    changes = {change.after: change for change in timeline.changes}
    for seen_term in timeline.seen_terms:
        text = f"{seen_term.node or 'somebody'} leads term {seen_term.term}"
        change = changes.get(seen_term.term)
        if change is not None:
            how = "moved on purpose, " if change.planned else ""
            text += f": {how}{change.gap_s * 1000:.0f} ms without a leader, failover duplicates: "
            text += f"{change.failover} within {change.span_ms} ms" if change.failover else "none"
        lines.append((seen_term.begin_s, text))
    for at_s, text in sorted(lines, key=lambda line: line[0]):
        yield f"{at_s:9.3f} s  {text}"
