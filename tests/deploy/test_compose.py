"""compose.yaml, the configuration of its nodes and Prometheus' targets tell of the same cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from node.runtime.config import load_config

DEPLOY = Path(__file__).parents[2] / "deploy"
NODES = ("n1", "n2", "n3")


def document(name: str) -> dict[str, Any]:
    """A YAML file of deploy/."""
    loaded = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("node", NODES)
def test_each_node_reads_its_configuration(node: str) -> None:
    """One file for all, and the environment says which node it is; the directories are on its volume."""
    service = document("compose.yaml")["services"][node]
    assert "./node.toml:/etc/hourwheel/node.toml:ro" in service["volumes"]
    assert f"{node}:/var/lib/hourwheel" in service["volumes"]
    config = load_config(DEPLOY / "node.toml", service["environment"])
    assert config.node_id == node
    for path in (config.data_dir, config.export.to):
        assert path.startswith("/var/lib/hourwheel/")
    assert service["ports"][0].endswith(f":{config.http.port}")


def test_the_services_are_the_cluster() -> None:
    """Peers are named as the services are, and Prometheus asks all of them."""
    services = document("compose.yaml")["services"]
    config = load_config(DEPLOY / "node.toml", services["n1"]["environment"])
    assert tuple(peer.id for peer in config.peers) == NODES
    assert [peer.http for peer in config.peers] == [f"{node}:{config.http.port}" for node in NODES]
    assert [peer.raft for peer in config.peers] == [f"{node}:{config.raft.port}" for node in NODES]
    assert set(services) == {*NODES, "prometheus"}
    scrape = document("prometheus.yml")["scrape_configs"][0]
    assert scrape["job_name"] == "hourwheel"
    assert scrape["static_configs"][0]["targets"] == [peer.http for peer in config.peers]


def test_nothing_is_published_beyond_the_machine() -> None:
    """There is no TLS and no token: ports are loopback's; containers have no rights and no root to write to."""
    for service in document("compose.yaml")["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
