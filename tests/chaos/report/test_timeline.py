"""The timeline tells of a run what its history holds, in text, JSON and pictures."""

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from chaos.check.message.duplicates import check_duplicates
from chaos.history.bounds import Bounds
from chaos.history.event import Crashed, Event, Fault
from chaos.history.history import History
from chaos.report.timeline import Timeline, hits
from chaos.report.timeline_lanes import LINKS, lanes_of
from chaos.report.timeline_text import describe
from chaos.report.write_timeline import write
from tests.chaos.history.planted import COUNT, DUPLICATES, KILL_MS, at, good


def fault(ms: float, phase: str, kind: str = "kill", node: str = "n1", detail: str = "") -> Fault:
    """A fault's begin or end `ms` after the start."""
    fields = {"kind": kind, "node": node, "role": "leader", "phase": phase, "detail": detail, "type": "Fault"}
    return msgspec.convert(fields | at(ms), Fault)


def timeline(*more: Event) -> Timeline:
    """Of the good history and these events."""
    return Timeline.of(History(sorted([*good(), *more], key=lambda event: event.mono_ms)), Bounds())


def test_counts_of_bins_add_up_to_the_run() -> None:
    """No event is left out of the bins, however many there are."""
    whole = timeline()
    for count_max in (1, 7, 60, 400):
        bins = whole.bins(count_max)
        assert len(bins.edges_s) - 1 <= count_max
        assert bins.offered.sum() == COUNT
        assert bins.handed_over.sum() == len(whole.handed_over_s)
        assert sum(int(each.sum()) for each in bins.repeats.values()) == whole.duplicates
        assert np.nanmax(bins.max_ms) == whole.lateness_ms.max()


def test_duplicates_are_those_of_the_verdict() -> None:
    """The timeline counts with the checker's own causes and spans, and puts them at the change that made them."""
    whole = timeline()
    figure = check_duplicates(History(good()), Bounds()).figure
    totals = whole.totals()
    assert (totals["failover"], totals["after_lease"]) == (figure["failover"], figure["after_lease"])
    (change,) = whole.changes
    assert (change.before, change.after, change.failover) == (1, 2, len(DUPLICATES))
    assert change.span_ms == figure["span_ms"]


def test_reign_ends_with_the_fault_and_the_gap_is_seen() -> None:
    """n1 led until it was killed, n2 from the first sign of its term; between them nobody did."""
    first, second = timeline().seen_terms
    assert (first.node, first.end_s) == ("n1", KILL_MS / 1000)
    assert (second.node, second.begin_s) == ("n2", 1.5)
    assert timeline().changes[0].gap_s == pytest.approx(0.5)


def test_fault_lasts_from_its_begin_to_its_own_end() -> None:
    """Ends are matched by kind and node; what has none is open; what was done to links has a lane of its own."""
    whole = timeline(
        fault(1_200, "begin", "slow", "n2", "by=0.200"),
        fault(1_300, "begin", "cut", "n1>n2"),
        fault(1_400, "end", "slow", "n2"),
        fault(2_000, "end"),
    )
    spans = {span.kind: span for span in whole.faults}
    assert (spans["kill"].begin_s, spans["kill"].end_s) == (1.0, 2.0)
    assert (spans["slow"].end_s, spans["slow"].detail) == (1.4, "by=0.200")
    assert spans["cut"].end_s is None
    assert [lane.name for lane in lanes_of(whole, 12.0)] == ["n1", "n2", "n3", LINKS]
    assert "slow n2 by=0.200 (leader), for 0.20 s" in describe(whole)
    assert "cut n1>n2, not over at the end" in describe(whole)


def test_rows_of_a_lane_keep_bars_and_names_apart() -> None:
    """However dense the faults, none covers another's bar or name, nor leaves the picture."""
    faults = [fault(40 * place, "begin", "oldcopy") for place in range(60)]
    whole = timeline(*faults, *(fault(40 * place + 30, "end", "oldcopy") for place in range(60)))
    rows = lanes_of(whole, 12.0)[0].rows
    assert sum(map(len, rows)) == len(whole.faults)
    for row in rows:
        taken = sorted(bar.taken_in for bar in row)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(taken))
        assert taken[-1][1] < 12.3


@pytest.mark.parametrize(
    ("target", "found"),
    [("n1", True), ("n1>n2", True), ("n2-n3", False), ("n2|n1,n3", True), ("*-*", True), ("n11", False)],
)
def test_target_hits_a_node(target: str, found: bool) -> None:
    """A node is hit by its name, by a link it ends, by a group it is in."""
    assert hits(target, "n1") is found


def test_text_shows_who_led_and_what_was_done() -> None:
    """One lane a node with its reign and its faults, the story below in order of time."""
    lines = describe(timeline(fault(2_000, "end"))).splitlines()
    lanes = {line.split()[0]: line for line in lines if line.startswith(("n1 ", "n2 "))}
    assert re.search(r"━+kill░+·+$", lanes["n1"])
    assert re.search(r"·+━+$", lanes["n2"])
    story = lines[lines.index("", lines.index("") + 1) + 1 :]
    times = [float(line.split()[0]) for line in story]
    assert times == sorted(times)
    assert any(
        "n2 leads term 2: 500 ms without a leader, failover duplicates: 3 within 20 ms" in line for line in story
    )


def test_files_are_written_and_the_same_again(tmp_path: Path) -> None:
    """Text, JSON, PNG and SVG; a history drawn twice gives the same bytes, and JSON holds no NaN."""
    crash = msgspec.convert({"type": "Crashed", "node": "n2", "error": "EIO", "expected": True} | at(1_700), Crashed)
    whole = timeline(crash)
    written = write(whole, tmp_path, "A run")
    assert [path.name for path in written] == ["timeline.txt", "timeline.json", "timeline.png", "timeline.svg"]
    assert written[2].read_bytes().startswith(b"\x89PNG")
    svg = written[3].read_text(encoding="utf-8")
    assert "A run" in svg
    assert svg.count("font-family") == 1

    def no_number(text: str) -> Any:
        raise AssertionError(text)

    document = json.loads(written[1].read_text(encoding="utf-8"), parse_constant=no_number)
    assert document["totals"]["acknowledged"] == COUNT
    assert document["ends"] == [{"node": "n2", "at_s": 1.7, "error": "EIO", "expected": True}]
    assert sum(document["bins"]["handed_over"]) == document["totals"]["handed_over"]
    again = write(whole, tmp_path, "A run")
    assert again[3].read_text(encoding="utf-8") == svg


def test_history_without_hand_overs_has_a_timeline(tmp_path: Path) -> None:
    """A run in which nothing came through is drawn as well; one without any event is refused."""
    whole = Timeline.of(History([fault(0, "begin"), fault(900, "end")]), Bounds())
    assert len(write(whole, tmp_path)) == 4
    assert "nothing handed over" in describe(whole)
    with pytest.raises(ValueError, match="without events"):
        Timeline.of(History(), Bounds())


def test_machine_without_matplotlib_has_text_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures need the extra `spark`; a run without it has its timeline all the same."""
    monkeypatch.delitem(sys.modules, "chaos.report.timeline_picture", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert [path.name for path in write(timeline(), tmp_path)] == ["timeline.txt", "timeline.json"]
