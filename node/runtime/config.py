"""The configuration of one node: a TOML file, overridden by HOURWHEEL_* variables, as one frozen structure.

Unknown keys are refused, and the error names the most similar known key. If a misspelt key were ignored, the mistake
would be found in production. Each field states its unit, range and trade-off. Rules about several fields are checked at
the end.

A variable has the field's path in upper case: HOURWHEEL_HTTP_LISTEN for `[http] listen`, HOURWHEEL_NODE_ID. A list of
texts is separated by commas.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from api.port.budget import CONNECTIONS_MAX
from api.port.duration import BadDuration, parse_duration, render_duration
from api.port.port import DELAY_LEVELS_MS

DAY_MS = 86_400_000


class ConfigError(Exception):
    """The configuration cannot be used. The text says which key, the value found, and the values allowed."""


class Listen(Struct, frozen=True, forbid_unknown_fields=True):
    """The address at which a server listens."""

    listen: str  # host:port
    insecure: bool = False  # listen beyond loopback although there is no TLS and no token yet

    @property
    def host(self) -> str:
        """The host of `listen`, without the port."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of `listen`."""
        return int(self.listen.rpartition(":")[2])


class Peer(Struct, frozen=True, forbid_unknown_fields=True):
    """A member of the cluster, as each node's configuration lists it. The list includes the node itself."""

    id: str
    raft: str  # host:port at which other nodes reach its Raft listener
    http: str  # host:port at which other nodes reach its HTTP listener


class HttpOptions(Listen, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The address at which clients reach the node."""

    names: tuple[str, ...] = ()  # host names besides its own and localhost, by which browsers may use the node


class RaftOptions(Listen, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The address at which other nodes reach this one, the timing of elections, and when upgrades happen.

    Shorter times bring a faster failover. On a busy machine they also bring elections although no node failed.
    """

    heartbeat_ms: Annotated[int, Meta(ge=10, le=1000)] = 50  # how often the leader proves that it lives
    # A follower that hears no leader campaigns after a random time between these two. A wide range keeps two nodes from
    # campaigning at once.
    election_min_ms: Annotated[int, Meta(ge=100, le=60_000)] = 400
    election_max_ms: Annotated[int, Meta(ge=150, le=120_000)] = 800
    # A leader may act this long after SENDING a heartbeat that a majority echoed.
    trust_ms: Annotated[int, Meta(ge=50, le=60_000)] = 250
    # Says when the level of the cluster rises. After that no older build can join. `auto`: as soon as all members read
    # the next level. `asked`: only after POST /v1/cluster/upgrade.
    upgrade: Literal["auto", "asked"] = "auto"


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of one request, and of all clients together."""

    # Beyond it: 422 beyond-max-delay, never an immediate delivery.
    max_delay_ms: Annotated[int, Meta(ge=1000, le=36_500 * DAY_MS)] = 3650 * DAY_MS
    max_body_bytes: Annotated[int, Meta(ge=1, le=1 << 20)] = 256 * 1024  # one message's body
    # Messages that wait to be written to the journal. Beyond it: 429 over-limit.
    max_waiting_messages: Annotated[int, Meta(ge=1000, le=10_000_000)] = 200_000
    # Memory that all clients of this node hold together: bodies under way, their parsed fields, answers that they have
    # not read. Beyond it: 429 busy. 0: 64 MiB, or an eighth of the memory that the process may use if that is less.
    max_held_bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 0
    # Connections of clients to this node. The default is what one loop serves. The node takes fewer if it has few
    # descriptors or little memory.
    max_connections: Annotated[int, Meta(ge=16, le=1_000_000)] = CONNECTIONS_MAX
    # Topics up to which a schedule request makes new ones. Beyond it such a request gets 429 over-limit. PUT of a topic
    # has no such bound.
    max_topics: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    # The delays of `delay_level: n`, from 1, for new messages. Set them alike on all nodes, since any may lead.
    delay_levels: tuple[str, ...] = tuple(map(render_duration, DELAY_LEVELS_MS))


class ClockOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The bound on the differences between the nodes' clocks. A message's time on the network looks like such a
    difference, of up to half a round trip.
    """

    # A node whose clock is farther from the median is not ready, and leads only if no other node can. A leader yields
    # if the clocks of a majority are farther from its own. At most 500, as no stamp is farther ahead of the median.
    skew_max_ms: Annotated[int, Meta(ge=20, le=500)] = 500


class Dispatch(Struct, frozen=True, forbid_unknown_fields=True):
    """The loop in which the leader dispatches units and starts hand-overs."""

    # No hand-over starts while the oldest one without a committed Lease is this old. This bounds failover duplicates.
    stop_ms: Annotated[int, Meta(ge=10, le=1000)] = 50
    beat_ms: Annotated[int, Meta(ge=1, le=50)] = 20  # Leases wait at most this long for an entry
    state_ms: Annotated[int, Meta(ge=10, le=1000)] = 50  # how often the dispatch state is proposed while it changes
    window_per_topic: Annotated[int, Meta(ge=1000, le=10_000_000)] = 200_000  # ready units in memory, 24 bytes each
    window_total: Annotated[int, Meta(ge=1000, le=100_000_000)] = 2_000_000  # of all topics; others stay on disk


class PushOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds of webhooks that the leader sends."""

    # Networks (CIDR) that may be pushed to although they are private, loopback, link-local or otherwise not public.
    allow: tuple[str, ...] = ()
    # Attempts under way at once to one receiver (scheme, host and port), and to all together. While many receivers are
    # slow, each of them gets fewer.
    per_target: Annotated[int, Meta(ge=1, le=10_000)] = 100
    total: Annotated[int, Meta(ge=1, le=50_000)] = 2_000
    # Ready units of one topic, and of all topics, among which the next push is chosen. Each has its body in memory.
    staged_per_topic: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    staged_total: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    timeout_ms: Annotated[int, Meta(ge=100, le=300_000)] = 10_000  # connect to end of answer, if the target says none


class WatchdogOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The watchdog of the event loop. While the loop is held up by one step, it answers no client."""

    # If one step holds the loop for longer, that is logged with the lines of code. A smaller value costs more, because
    # the watchdog looks 4 times within this time.
    held_ms: Annotated[int, Meta(ge=20, le=10_000)] = 100


class StorageOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """When a checkpoint makes the files durable, and how much journal is kept. A restart replays the journal since the
    last checkpoint.
    """

    # While something changes, a checkpoint is made this long after the last one. It is made sooner if there is this
    # much journal since, or this much of far hours in memory.
    checkpoint_s: Annotated[int, Meta(ge=1, le=3600)] = 30
    checkpoint_journal_mb: Annotated[int, Meta(ge=1, le=65_536)] = 256
    staged_mb: Annotated[int, Meta(ge=1, le=4096)] = 64
    # Journal kept from before the checkpoint for nodes that lag or are down. A node that needs more gets a snapshot.
    journal_keep_mb: Annotated[int, Meta(ge=0, le=1 << 20)] = 1024
    # Journal kept for one node while it takes over a snapshot. If it needs more, the snapshot is given up.
    snapshot_journal_mb: Annotated[int, Meta(ge=1, le=1 << 20)] = 8192
    snapshot_mb_per_s: Annotated[int, Meta(ge=1, le=10_000)] = 64  # how fast a leader sends snapshots to all nodes
    # How long an ended message stays known, and how long its key stays taken. Genesis fixes both for the cluster.
    retention_ms: Annotated[int, Meta(ge=1000, le=3650 * DAY_MS)] = DAY_MS
    key_retention_ms: Annotated[int, Meta(ge=1000, le=3650 * DAY_MS)] = DAY_MS


class BackupOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Backups that this node writes when a POST /v1/cluster/snapshot asks for one."""

    directory: str = ""  # requests may name a directory below it; empty: data_dir with `.backups` added to its name
    mb_per_s: Annotated[int, Meta(ge=1, le=10_000)] = 64  # a quicker backup slows the journal's writes down more
    max_share: Annotated[float, Meta(gt=0, le=1)] = 0.5  # all backups together, of the disk that also has the data


class ExportOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The export for the reconciliation. Set it alike on all nodes: no hour is unlinked before the leader has exported
    it.
    """

    to: str = ""  # a directory, which several nodes may share; empty: there is no export, and no hour waits for it
    every_s: Annotated[int, Meta(ge=1, le=86_400)] = 60  # the outcome of a message is exported this much later, at most
    mb_per_s: Annotated[int, Meta(ge=1, le=10_000)] = 64  # a quicker export slows the journal's writes down more


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of one node."""

    node_id: str
    data_dir: str
    http: HttpOptions
    raft: RaftOptions
    peers: tuple[Peer, ...]
    # This node belongs to a cluster that exists, or is about to be added to it. It never founds one. `peers` then lists
    # some of its members, and this node.
    join: bool = False
    limits: Limits = field(default_factory=Limits)
    clock: ClockOptions = field(default_factory=ClockOptions)
    dispatch: Dispatch = field(default_factory=Dispatch)
    storage: StorageOptions = field(default_factory=StorageOptions)
    watchdog: WatchdogOptions = field(default_factory=WatchdogOptions)
    push: PushOptions = field(default_factory=PushOptions)
    backup: BackupOptions = field(default_factory=BackupOptions)
    export: ExportOptions = field(default_factory=ExportOptions)

    @property
    def directory(self) -> Path:
        """`data_dir` as a path."""
        return Path(self.data_dir)

    @property
    def http_names(self) -> frozenset[str]:
        """The host names by which browsers may use this node, in lower case."""
        own = [peer.http.rpartition(":")[0] for peer in self.peers if peer.id == self.node_id]
        return frozenset(name.lower() for name in ("localhost", self.http.host, *own, *self.http.names))

    @property
    def backup_directory(self) -> Path:
        """`backup.directory` as an absolute path."""
        return Path(os.path.abspath(self.backup.directory or f"{os.path.normpath(self.data_dir)}.backups"))


def load_config(path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Read and check the TOML file at `path`. Variables in `environ` override single keys. Raises `ConfigError`."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return parse_config(raw, environ)
    except OSError as missing:
        raise ConfigError(f"{path}: {missing.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigError) as broken:
        raise ConfigError(f"{path}: {broken}") from None


def parse_config(raw: dict[str, Any], environ: Mapping[str, str]) -> Config:
    """Check a parsed TOML document, overridden by `environ`. Raises `ConfigError` naming the key."""
    _override(Config, raw, environ, "HOURWHEEL")
    try:
        config = msgspec.convert(raw, Config)
    except msgspec.ValidationError as refused:
        raise ConfigError(_explain(str(refused))) from None
    _check(config)
    return config


def _override(kind: type[Struct], raw: dict[str, Any], environ: Mapping[str, str], prefix: str) -> None:
    """Put the values of HOURWHEEL_* variables into the document `raw`, each as the type of its field. `prefix` begins
    the variables' names.
    """
    for known in msgspec.structs.fields(kind):
        variable = f"{prefix}_{known.name.upper()}"
        if isinstance(known.type, type) and issubclass(known.type, Struct):
            table = raw.get(known.name, {})
            if isinstance(table, dict):
                _override(known.type, table, environ, variable)
                if table:
                    raw[known.name] = table
        elif variable in environ:
            found: Any = environ[variable]
            if known.type == tuple[str, ...]:
                found = [part.strip() for part in found.split(",") if part.strip()]
            try:
                raw[known.name] = msgspec.convert(found, known.type, strict=False)
            except msgspec.ValidationError as refused:
                raise ConfigError(f"{variable}: {refused}; found {environ[variable]!r}") from None


def _explain(refusal: str) -> str:
    """Turn msgspec's `Object contains unknown field `x` - at `$.http`` into `http.x: ...`, with the most similar known
    key.
    """
    reason, _, at = refusal.partition(" - at `$")
    at = at.rstrip("`").lstrip(".")
    named = re.search(r"field `(\w+)`", reason)
    if named is None:
        return f"{at}: {reason}"
    key = f"{at}.{named[1]}".lstrip(".")
    if "unknown" not in reason:
        return f"{key}: is needed"
    known = [
        f.name
        for kind in (
            Config,
            RaftOptions,
            Peer,
            Limits,
            ClockOptions,
            Dispatch,
            StorageOptions,
            WatchdogOptions,
            PushOptions,
            BackupOptions,
            ExportOptions,
        )
        for f in msgspec.structs.fields(kind)
    ]
    near = difflib.get_close_matches(named[1], known, 1)
    return f"{key}: unknown key" + (f"; did you mean {near[0]}?" if near else "")


def _check(config: Config) -> None:
    if not config.node_id or not all(c.isalnum() or c in "-_." for c in config.node_id) or len(config.node_id) > 64:
        raise ConfigError(f"node_id: 1 to 64 letters, digits, '-', '_' or '.', found {config.node_id!r}")
    if config.raft.election_min_ms < 4 * config.raft.heartbeat_ms:
        raise ConfigError("raft.election_min_ms: must be at least 4 heartbeats (raft.heartbeat_ms)")
    if config.raft.election_max_ms <= config.raft.election_min_ms:
        raise ConfigError("raft.election_max_ms: must be above raft.election_min_ms")
    if config.raft.trust_ms >= config.raft.election_min_ms:
        raise ConfigError("raft.trust_ms: must be below raft.election_min_ms, or two nodes could hand over at once")
    if config.raft.trust_ms <= 2 * config.raft.heartbeat_ms:
        raise ConfigError("raft.trust_ms: must be above 2 heartbeats (raft.heartbeat_ms), or one late echo ends trust")
    if config.dispatch.beat_ms >= config.dispatch.stop_ms:
        raise ConfigError("dispatch.beat_ms: must be below dispatch.stop_ms, or hand-over stops at every beat")
    if config.dispatch.window_per_topic > config.dispatch.window_total:
        raise ConfigError("dispatch.window_per_topic: must not be above dispatch.window_total")
    if config.storage.snapshot_journal_mb < config.storage.journal_keep_mb:
        raise ConfigError("storage.snapshot_journal_mb: must not be below storage.journal_keep_mb")
    _check_push(config.push)
    for name in config.http.names:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", name):
            raise ConfigError(f"http.names: a host name without a port is expected, found {name!r}")
    _check_levels(config.limits.delay_levels)
    if config.export.to and Path(os.path.abspath(config.export.to)).is_relative_to(os.path.abspath(config.data_dir)):
        raise ConfigError(f"export.to: {config.export.to} is data_dir or within it; it needs a place of its own")
    if not config.data_dir:
        raise ConfigError("data_dir: a directory is expected, found an empty string")
    if config.http.listen == config.raft.listen:
        raise ConfigError(f"raft.listen: {config.raft.listen} is http.listen too; each needs a port of its own")
    _check_peers(config)
    for name, server in (("http", config.http), ("raft", config.raft)):
        _check_address(f"{name}.listen", server.listen)
        if not _is_loopback(server.host) and not server.insecure:
            raise ConfigError(
                f"{name}.listen: {server.listen} is not loopback, and there is no TLS and no token yet; "
                f"set {name}.insecure = true if this network is trusted"
            )


def _check_levels(levels: tuple[str, ...]) -> None:
    if not 1 <= len(levels) <= 64:
        raise ConfigError(f"limits.delay_levels: 1 to 64 durations, found {len(levels)}")
    for level in levels:
        try:
            parse_duration(level)
        except BadDuration as bad:
            raise ConfigError(f"limits.delay_levels: {bad}") from None


def _check_push(push: PushOptions) -> None:
    for network in push.allow:
        try:
            ipaddress.ip_network(network)
        except ValueError as wrong:
            raise ConfigError(f"push.allow: a network such as 10.0.0.0/8 is expected: {wrong}") from None
    if push.per_target > push.total:
        raise ConfigError("push.per_target: must not be above push.total")
    if push.staged_per_topic > push.staged_total:
        raise ConfigError("push.staged_per_topic: must not be above push.staged_total")


def _check_peers(config: Config) -> None:
    ids = [peer.id for peer in config.peers]
    if len(set(ids)) != len(ids):
        raise ConfigError(f"peers: an id is listed twice: {', '.join(ids)}")
    if config.node_id not in ids:
        raise ConfigError(f"peers: this node ({config.node_id}) is not among them: {', '.join(ids)}")
    if config.join and len(ids) == 1:
        raise ConfigError("peers: a node that joins lists members of the cluster beside itself, found none")
    if not config.join and len(ids) not in (1, 3, 5):
        raise ConfigError(
            f"peers: 1, 3 or 5 nodes found a cluster, found {len(ids)}; a node of one that exists sets join = true"
        )
    for peer in config.peers:
        _check_address(f"peers.{peer.id}.raft", peer.raft)
        _check_address(f"peers.{peer.id}.http", peer.http)


def _check_address(key: str, address: str) -> None:
    host, colon, port = address.rpartition(":")
    if not host or not colon or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigError(f"{key}: host:port is expected, found {address!r}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
