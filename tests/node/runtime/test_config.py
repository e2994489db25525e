"""Configuration: everything known is read, everything else is refused by name."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from node.runtime.config import (
    ConfigError,
    Dispatch,
    ExportOptions,
    Limits,
    PushOptions,
    RaftOptions,
    StorageOptions,
    WatchdogOptions,
    load_config,
    parse_config,
)


def document(**changes: Any) -> dict[str, Any]:
    """A complete document of node n1 of three; `changes` replace top-level keys, None removes one."""
    peers = [{"id": f"n{i}", "raft": f"127.0.0.1:{7500 + i}", "http": f"127.0.0.1:{7400 + i}"} for i in (1, 2, 3)]
    whole: dict[str, Any] = {
        "node_id": "n1",
        "data_dir": "data",
        "http": {"listen": "127.0.0.1:7401"},
        "raft": {"listen": "127.0.0.1:7501"},
        "peers": peers,
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def test_a_complete_file_is_read(tmp_path: Path) -> None:
    """Strings, numbers and tables arrive; what is left out has its default."""
    path = tmp_path / "n1.toml"
    path.write_text(
        'node_id = "n1"\ndata_dir = "d"\n[http]\nlisten = "127.0.0.1:1"\n[raft]\nlisten = "[::1]:2"\ntrust_ms = 200\n'
        '[[peers]]\nid = "n1"\nraft = "h:2"\nhttp = "h:1"\n'
    )
    config = load_config(path, {})
    assert (config.http.host, config.http.port, config.raft.host, config.raft.trust_ms) == ("127.0.0.1", 1, "::1", 200)
    assert config.dispatch.stop_ms == 50
    assert [peer.http for peer in config.peers] == ["h:1"]


def test_environment_overrides_single_keys() -> None:
    """HOURWHEEL_<TABLE>_<KEY> wins over the file and is read as the key's type."""
    environ = {"HOURWHEEL_DATA_DIR": "other", "HOURWHEEL_DISPATCH_STOP_MS": "40", "HOURWHEEL_HTTP_INSECURE": "true"}
    config = parse_config(document(), environ)
    assert (config.data_dir, config.dispatch.stop_ms, config.http.insecure) == ("other", 40, True)
    with pytest.raises(ConfigError, match="HOURWHEEL_DISPATCH_STOP_MS"):
        parse_config(document(), {"HOURWHEEL_DISPATCH_STOP_MS": "soon"})


def test_a_list_in_the_environment_is_separated_by_commas() -> None:
    """Networks are set without a file; an empty text is an empty list."""
    environ = {"HOURWHEEL_PUSH_ALLOW": "127.0.0.0/8, ::1/128"}
    assert parse_config(document(), environ).push.allow == ("127.0.0.0/8", "::1/128")
    assert parse_config(document(push={"allow": ["10.0.0.0/8"]}), {"HOURWHEEL_PUSH_ALLOW": ""}).push.allow == ()


def test_delay_levels_are_durations() -> None:
    """RocketMQ's 18 unless there are others."""
    assert parse_config(document(), {}).limits.delay_levels[:5] == ("1s", "5s", "10s", "30s", "1m")
    own = parse_config(document(), {"HOURWHEEL_LIMITS_DELAY_LEVELS": "250ms, 2d"})
    assert own.limits.delay_levels == ("250ms", "2d")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limits": {"delay_levels": []}}, "limits.delay_levels: 1 to 64 durations, found 0"),
        ({"limits": {"delay_levels": ["1s"] * 65}}, "limits.delay_levels: 1 to 64 durations, found 65"),
        ({"limits": {"delay_levels": ["1s", "soon"]}}, 'limits.delay_levels: "soon" is no duration'),
        ({"node_idd": "x"}, "node_idd: unknown key; did you mean node_id"),
        ({"http": {"listen": "127.0.0.1:1", "insecur": True}}, "http.insecur: unknown key; did you mean insecure"),
        ({"node_id": None}, "node_id: is needed"),
        ({"peers": None}, "peers: is needed"),
        ({"http": {}}, "http.listen: is needed"),
        ({"http": {"listen": 7}}, "http.listen: Expected `str`"),
        ({"dispatch": {"stop_ms": 5}}, "dispatch.stop_ms: Expected `int` >= 10"),
        ({"raft": {"listen": "127.0.0.1:1", "trust_ms": 450}}, "raft.trust_ms: must be below raft.election_min_ms"),
        ({"raft": {"listen": "127.0.0.1:1", "heartbeat_ms": 200}}, "raft.election_min_ms: must be at least 4"),
        ({"raft": {"listen": "127.0.0.1:1", "heartbeat_ms": 100, "trust_ms": 200}}, "raft.trust_ms: must be above 2"),
        ({"push": {"allow": ["10.0.0.1/8"]}}, "push.allow: a network .* is expected: 10.0.0.1/8 has host"),
        ({"push": {"allow": ["localhost"]}}, "push.allow: a network such as 10.0.0.0/8 is expected"),
        ({"push": {"per_target": 51, "total": 50}}, "push.per_target: must not be above push.total"),
        ({"push": {"staged_per_topic": 2, "staged_total": 1}}, "push.staged_per_topic: must not be above"),
        ({"push": {"per_targets": 1}}, "push.per_targets: unknown key; did you mean per_target"),
        ({"dispatch": {"stop_ms": 20}}, "dispatch.beat_ms: must be below dispatch.stop_ms"),
        ({"dispatch": {"window_total": 199_999}}, "dispatch.window_per_topic: must not be above"),
        ({"data_dir": ""}, "data_dir: a directory is expected"),
        ({"data_dir": "data", "export": {"to": "./data/export"}}, "export.to: ./data/export is data_dir or within it"),
        ({"data_dir": "data", "export": {"to": "data/"}}, "export.to: data/ is data_dir or within it"),
        ({"export": {"every": 5}}, "export.every: unknown key; did you mean every_s"),
        ({"raft": {"listen": "127.0.0.1:7401"}}, "raft.listen: 127.0.0.1:7401 is http.listen too"),
        ({"node_id": "n9"}, r"this node \(n9\) is not among them"),
        ({"node_id": "n 1"}, "node_id: 1 to 64 letters"),
        ({"http": {"listen": "127.0.0.1"}}, "http.listen: host:port is expected"),
        ({"http": {"listen": "0.0.0.0:80"}}, "http.listen: 0.0.0.0:80 is not loopback.*insecure = true"),
        ({"peers": [{"id": "n1", "raft": "h:1"}]}, r"peers\[0\].http: is needed|peers.*http"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    """Each error says which key, and what is allowed or meant."""
    with pytest.raises(ConfigError, match=message):
        parse_config(document(**changes), {})


def test_a_listener_beyond_loopback_is_a_decision() -> None:
    """insecure = true is what it takes until there is TLS."""
    config = parse_config(document(http={"listen": "0.0.0.0:80", "insecure": True}), {})
    assert config.http.host == "0.0.0.0"


def test_a_node_that_joins_lists_whom_to_ask() -> None:
    """A cluster is founded by 1, 3 or 5 nodes; one that exists may have any number, but a node has to ask somebody."""
    peers = document()["peers"]
    two = [peers[0], peers[1]]
    assert parse_config(document(peers=two, join=True), {}).join
    assert not parse_config(document(), {}).join
    with pytest.raises(ConfigError, match="1, 3 or 5 nodes found a cluster, found 2"):
        parse_config(document(peers=two), {})
    with pytest.raises(ConfigError, match="lists members of the cluster beside itself"):
        parse_config(document(peers=peers[:1], join=True), {})


def test_a_missing_file_and_broken_toml_are_named(tmp_path: Path) -> None:
    """The path stands in front of every error."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file"):
        load_config(tmp_path / "nowhere.toml", {})
    broken = tmp_path / "broken.toml"
    broken.write_text("node_id = ")
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        load_config(broken, {})


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ("raft", RaftOptions),
        ("limits", Limits),
        ("dispatch", Dispatch),
        ("storage", StorageOptions),
        ("watchdog", WatchdogOptions),
        ("push", PushOptions),
        ("export", ExportOptions),
    ],
)
def test_the_page_for_operators_has_every_key_with_its_default(section: str, kind: type[msgspec.Struct]) -> None:
    """docs/operating.md and the structures say the same; a long default is shown by how it begins and ends."""
    page = (Path(__file__).parents[3] / "docs" / "operating.md").read_text(encoding="utf-8")
    table = page.split(f"| `[{section}]` |")[1].split("\n\n")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", table, re.MULTILINE))
    fields = msgspec.structs.fields(kind)
    known = {field.name: field.default for field in fields if field.name not in ("listen", "insecure")}
    assert told.keys() == known.keys()
    for name, default in known.items():
        shown = json.dumps(default)
        begin, _, end = told[name].partition(" ... ")
        assert shown.startswith(begin) if end else shown == told[name], name
        assert shown.endswith(end), name
