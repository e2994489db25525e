"""Commands that create, change or remove a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section

SETTINGS_DEPTH_MAX = 8


@dataclass(frozen=True, slots=True)
class PutTopic:
    """Create a topic or set its settings. `revision` is the one that the client expects, 0 for any."""

    namespace: str
    name: str
    settings: dict[str, Any]  # whole settings if `replace`, else those to change
    replace: bool
    revision: int = 0

    def pack(self) -> Packed:
        """The command as a section."""
        value = {
            "namespace": self.namespace,
            "name": self.name,
            "settings": self.settings,
            "replace": self.replace,
            "revision": self.revision,
        }
        return Kind.PUT_TOPIC, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> PutTopic:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        return cls(
            namespace=filled(value.get("namespace"), str, "namespace"),
            name=filled(value.get("name"), str, "name"),
            settings=_plain(filled(value.get("settings"), dict, "settings")),
            replace=filled(value.get("replace"), bool, "replace"),
            revision=filled(value.get("revision"), int, "revision"),
        )


@dataclass(frozen=True, slots=True)
class DropTopic:
    """Remove a topic that the leader has found empty.

    `index` is the log index that this entry must get, and `units` the number of units that the store must have then. If
    both are so, no message can have come since the leader looked.
    """

    namespace: str
    name: str
    index: int
    units: int
    revision: int = 0  # the one that the client expects; 0: any

    def pack(self) -> Packed:
        """The command as a section."""
        value = {name: getattr(self, name) for name in ("namespace", "name", "index", "units", "revision")}
        return Kind.DROP_TOPIC, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> DropTopic:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        texts = [filled(value.get(name), str, name) for name in ("namespace", "name")]
        return cls(*texts, *(filled(value.get(name), int, name) for name in ("index", "units", "revision")))


def _plain(value: Any, depth: int = SETTINGS_DEPTH_MAX) -> Any:
    """Return `value` if it has only types of JSON and is at most `depth` levels deep. Otherwise raises `EntryRefused`,
    because the catalog cannot store other types of msgpack.
    """
    if isinstance(value, dict) and depth and all(isinstance(name, str) for name in value):
        return {name: _plain(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list) and depth:
        return [_plain(item, depth - 1) for item in value]
    if not isinstance(value, str | int | float | None):
        raise EntryRefused(f"settings: {type(value).__name__} found, or more than {SETTINGS_DEPTH_MAX} levels")
    return value
