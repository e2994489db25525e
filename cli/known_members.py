"""The members of clusters that commands saw, in a small file: a command finds a node when the given one is down.

The file is a cache. If it, or an entry of it, cannot be read or written, the command goes on without it and says
nothing. The file holds clusters' ids and addresses, and when they were seen.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from hourwheel.core.addresses import Address, BadAddress, parse_addresses

#: A command asks for the members of a cluster again when they were last seen this long ago.
FRESH_S: Final = 600.0
#: The most clusters in the file. The ones seen longest ago are removed.
CLUSTERS_MAX: Final = 50


def cache_file() -> Path | None:
    """Return the file's path: below XDG_CACHE_HOME or ~/.cache. None for a user whose home does not exist."""
    cache = os.environ.get("XDG_CACHE_HOME")
    if not cache:
        try:
            home = Path.home()
        except RuntimeError:
            return None
        if not home.is_dir():
            return None
        cache = str(home / ".cache")
    return Path(cache) / "hourwheel" / "members.json"


class KnownMembers:
    """The file at `path`. For each cluster, by its id, it has the addresses at which commands asked it, and those of
    its members."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, given: Iterable[Address]) -> tuple[str, list[Address]] | None:
        """Return the id and all addresses of the cluster that was seen last at one of the addresses `given`. None if no
        cluster was seen there."""
        wanted = set(given)
        for cluster_id, entry in self._entries().items():
            found = _addresses(entry)
            if wanted & found:
                return cluster_id, sorted(found, key=str)
        return None

    def is_fresh(self, given: Iterable[Address], now_s: float) -> bool:
        """True if the members of the cluster at these addresses were seen less than FRESH_S ago."""
        wanted = set(given)
        seen_s = [float(entry["seen_s"]) for entry in self._entries().values() if wanted <= _addresses(entry)]
        return bool(seen_s) and abs(now_s - seen_s[0]) < FRESH_S

    def keep(self, cluster_id: str, given: Iterable[Address], members: Iterable[Address], now_s: float) -> None:
        """Write a cluster into the file. An address belongs to one cluster, so the entries of other clusters that have
        one of these addresses are removed."""
        entry = {"given": [each.url for each in given], "members": [each.url for each in members], "seen_s": now_s}
        ours = _addresses(entry)
        others = {name: each for name, each in self._entries().items() if name != cluster_id}
        kept = [(name, each) for name, each in others.items() if not ours & _addresses(each)]
        self._write(dict([(cluster_id, entry), *kept][:CLUSTERS_MAX]))

    def _entries(self) -> dict[str, dict[str, Any]]:
        """Each cluster of the file, the one seen last first."""
        try:
            document = json.loads(self._path.read_bytes())
            entries = {name: each for name, each in document.items() if isinstance(each["seen_s"], int | float)}
        except (OSError, ValueError, AttributeError, TypeError, KeyError, RecursionError):
            return {}
        return dict(sorted(entries.items(), key=lambda row: -row[1]["seen_s"]))

    def _write(self, entries: dict[str, dict[str, Any]]) -> None:
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                beside.write_text(json.dumps(entries), encoding="utf-8")
                os.replace(beside, self._path)
            finally:
                beside.unlink(missing_ok=True)


def _addresses(entry: dict[str, Any]) -> set[Address]:
    try:
        return set(parse_addresses([*entry["given"], *entry["members"]]))
    except (BadAddress, KeyError, TypeError, AttributeError):
        return set()
