"""What there is to reconcile: the nodes, the hours with all their copies, the delivery files, and what is wrong.

```
paths given         what is found                         what tasks are given
/data/n1  ----+-->  NodeData n1 n2 n3 (topics, members)   HourPart(hour, first, copies n1 n2 n3)  -> hour.py
/data/n2  ----+     hours/<hour>[.<generation>] of each   DeliverySource(node, path, rows)        -> deliveries.py
/export   ----+     deliveries/<hour>-<sequence>.log
```
All nodes apply the same entries in the same order, so the same file of an hour is, byte for byte, a prefix of one
another on all of them: row 17 of `settle` is the same row everywhere, and where one copy is damaged another is read.

How far a file counts. What a node's checkpoint vouches for must be whole, or it is a Problem. What stands behind it is
what the node appended since, and counts as far as its rows are intact: the torn tail of a live or killed node is no
damage. An inventory is a moment: it is plain data, goes to any process that sees the same paths, and a task reads what
it names even while the files grow.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from reconcile.files.export import find_export, is_export_directory
from reconcile.files.find import DeliverySource, FoundFiles, HourCopy, find_deliveries, find_hours
from reconcile.files.node import NodeData, is_node_directory, read_node
from reconcile.files.problem import MISSING, DataRefused, Problem
from storage.tables.topic import Topic

BUCKET_UNITS: Final = 1 << 20
"""Units that one task reads and judges at a time."""


@dataclass(frozen=True, slots=True)
class HourPart:
    """Units first .. next of one hour, in all the copies there are, the one with most units first. An hour that was
    unlinked and begun again is another part of it, whose numbers go on."""

    hour: int
    first: int
    copies: tuple[HourCopy, ...]

    @property
    def units(self) -> int:
        """Of the longest copy."""
        return self.copies[0].units

    @property
    def next(self) -> int:
        """The global_index behind the last unit."""
        return self.first + self.units

    @property
    def settles(self) -> int:
        """Settle records of the copy that has most."""
        return max(copy.settles for copy in self.copies)

    @property
    def sealed_units(self) -> int:
        """So many units a checkpoint of any node vouches for."""
        return max(copy.sealed_units for copy in self.copies)

    @property
    def sealed_settles(self) -> int:
        """So many settle records a checkpoint of any node vouches for."""
        return max(copy.sealed_settles for copy in self.copies)


@dataclass(frozen=True, slots=True)
class Span:
    """One bucket: units first .. first + count of an hour."""

    hour: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that was found under `paths`. `hours` ascend by (hour, first), `deliveries` by (node, hour, sequence)."""

    paths: tuple[str, ...]
    nodes: tuple[NodeData, ...]
    hours: tuple[HourPart, ...]
    deliveries: tuple[DeliverySource, ...]
    problems: tuple[Problem, ...]
    cluster_id: bytes

    @classmethod
    def open(cls, paths: Sequence[str | Path]) -> Self:
        """Look at node directories and exports, or at directories that hold some. Reads headers and ends of files, no
        content.

        One node may be given by several: what it exported and what it still has, or its directory before and after it
        lost its disk. Raises DataRefused: a path that is not there or holds nobody's data, data of several clusters, a
        format version that this build does not read.
        """
        nodes: list[NodeData] = []
        all_found: list[FoundFiles] = []
        for path in _data_directories([Path(path) for path in paths]):
            if is_export_directory(path):
                exported, found = find_export(path)
                nodes += exported
                all_found.append(found)
            else:
                nodes.append(read_node(path))
        # Logs are measured before hours: while nodes run, a hand-over that counts then has its lease counted too.
        all_found += [find_deliveries(node) for node in nodes if not node.exported]
        for place, node in enumerate(nodes):
            if not node.exported:
                nodes[place], found = _hours_of(node)
                all_found.append(found)
        _refuse_twins(nodes)
        clusters = {cluster: file for found in all_found for cluster, file in found.clusters.items()}
        if len(clusters) > 1:
            named = "; ".join(f"{cluster.hex()} in {file}" for cluster, file in sorted(clusters.items()))
            raise DataRefused(f"the data is of {len(clusters)} clusters: {named}")
        problems = [problem for node in nodes for problem in node.problems]
        return cls(
            tuple(str(path) for path in paths),
            tuple(nodes),
            _parts([copy for found in all_found for copy in found.copies]),
            _longest([source for found in all_found for source in found.deliveries]),
            tuple(problems + [problem for found in all_found for problem in found.problems]),
            next(iter(clusters), b""),
        )

    @property
    def topics(self) -> Mapping[int, Topic]:
        """By number, of all nodes: the newest revision that a checkpoint has."""
        newest: dict[int, Topic] = {}
        for topic in (topic for node in self.nodes for topic in node.topics):
            known = newest.get(topic.number)
            if known is None or known.revision < topic.revision:
                newest[topic.number] = topic
        return newest

    @property
    def members(self) -> Mapping[int, str]:
        """Node ids by the number that records carry; numbers are given once and for all."""
        return {number: name for node in self.nodes for number, name in node.members.items()}

    def spans(self, units: int = BUCKET_UNITS) -> list[Span]:
        """All units in pieces of at most `units`, which begin at multiples of it."""
        spans = []
        for part in self.hours:
            first = part.first
            while first < part.next:
                end = min(part.next, (first // units + 1) * units)
                spans.append(Span(part.hour, first, end - first))
                first = end
        return spans

    def part(self, hour: int, index: int) -> HourPart | None:
        """The part of an hour that has the unit with this global_index; None if no node has it."""
        for part in self.hours:
            if part.hour == hour and part.first <= index < part.next:
                return part
        return None

    def only(self, hours: Iterable[int]) -> "Inventory":
        """The same with these hours alone: less to send to a task."""
        wanted = set(hours)
        return replace(self, hours=tuple(part for part in self.hours if part.hour in wanted))


def _data_directories(paths: Sequence[Path]) -> list[Path]:
    """The node directories and exports among these paths and directly below them, each once."""
    if not paths:
        raise DataRefused("no data was given: name at least one node's data directory, or an export")
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise DataRefused(f"{path}: there is no such directory")
        if not path.is_dir():
            raise DataRefused(f"{path} is not a directory")
        inside = [path] if _is_data(path) else []
        if not inside:
            below = sorted(child for child in path.iterdir() if child.is_dir())
            inside = [data for child in below for data in (child, child / "data") if _is_data(data)]
        if not inside:
            raise DataRefused(f"{path} is no node's data directory and no export, and holds none")
        found |= {data.resolve(): None for data in inside}
    return list(found)


def _hours_of(node: NodeData) -> tuple[NodeData, FoundFiles]:
    """The hours of a node. One that its checkpoint names and that is gone may have been unlinked since that was read:
    then a newer checkpoint, which does not name it, is the one to go by."""
    while True:
        found = find_hours(node)
        if not any(problem.kind == MISSING for problem in found.problems):
            return node, found
        again = read_node(node.path)
        if again.applied_index == node.applied_index:
            return node, found
        node = again


def _is_data(path: Path) -> bool:
    return is_node_directory(path) or is_export_directory(path)


def _refuse_twins(nodes: Sequence[NodeData]) -> None:
    """Directories without LOCK are told apart by their names alone."""
    paths: dict[str, Path] = {}
    for node in nodes:
        if node.store or node.exported:
            continue
        if node.name in paths:
            raise DataRefused(f"node {node.name} was given twice, without LOCK: {paths[node.name]} and {node.path}")
        paths[node.name] = node.path


def _longest(sources: Sequence[DeliverySource]) -> tuple[DeliverySource, ...]:
    """Each file of a delivery log once: exported and still there, it is read where it has most records."""
    best: dict[tuple[str, str, int], DeliverySource] = {}
    for source in sources:
        key = (source.node, source.store, source.sequence)
        if key not in best or best[key].rows < source.rows:
            best[key] = source
    return tuple(sorted(best.values(), key=lambda source: (source.node, source.hour, source.sequence, source.store)))


def _parts(copies: Sequence[HourCopy]) -> tuple[HourPart, ...]:
    grouped: dict[tuple[int, int], list[HourCopy]] = defaultdict(list)
    for copy in copies:
        grouped[copy.hour, copy.first].append(copy)
    return tuple(
        HourPart(hour, first, tuple(sorted(group, key=lambda copy: (-copy.units, -copy.settles, copy.node))))
        for (hour, first), group in sorted(grouped.items())
    )
