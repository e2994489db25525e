"""What clients may hold of a node follows from what its process may have."""

import pytest

import node.runtime.client_budget
from node.runtime.client_budget import client_budget
from node.runtime.config import Limits


@pytest.mark.parametrize(
    ("memory", "descriptors", "set_bytes", "held_bytes", "connections"),
    [
        (2 << 30, 1_048_576, 0, 64 << 20, 8_192),  # compose's
        (512 << 20, 1_048_576, 0, 64 << 20, 2_048),
        (24 << 30, 1_048_576, 0, 64 << 20, 10_000),
        (24 << 30, 20_000, 0, 64 << 20, (20_000 - 2_000 - 256) // 2),
        (24 << 30, 1_024, 500_000_000, 500_000_000, 16),
        (16 << 20, 1_048_576, 0, 32 << 20, 64),
    ],
)
def test_b2_descriptors_and_memory_bound_connections(
    monkeypatch: pytest.MonkeyPatch, memory: int, descriptors: int, set_bytes: int, held_bytes: int, connections: int
) -> None:
    """500,000 idle connections are no fewer than the descriptors of a common server, and 10 GB. Nor does one loop serve
    so many, whatever the machine has: 10,000 unless `max_connections` says more."""
    monkeypatch.setattr(node.runtime.client_budget, "memory_bytes", lambda: memory)
    monkeypatch.setattr(node.runtime.client_budget, "raise_descriptors", lambda: descriptors)
    budget = client_budget(Limits(max_held_bytes=set_bytes), pushes=2_000)
    assert (budget.bytes_max, budget.connections_max) == (held_bytes, connections)


def test_an_operator_may_allow_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """And fewer; not more than there are descriptors."""
    monkeypatch.setattr(node.runtime.client_budget, "memory_bytes", lambda: 64 << 30)
    monkeypatch.setattr(node.runtime.client_budget, "raise_descriptors", lambda: 65_536)
    for asked, most in ((100, 100), (20_000, 20_000), (90_000, (65_536 - 2_000 - 256) // 2)):
        assert client_budget(Limits(max_connections=asked), pushes=2_000).connections_max == most
