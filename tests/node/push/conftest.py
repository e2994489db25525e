"""Webhooks of whole nodes, with direct calls between group and push wire, and with all that crosses as bytes."""

import pytest

from node.environment import Environment
from node.port.loopback import FramedReceivers, framed_group


@pytest.fixture(params=["direct", "framed"])
def border(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between the two."""
    if request.param == "framed":
        monkeypatch.setattr(Environment, "receivers", lambda self, wire: FramedReceivers(wire))
        monkeypatch.setattr(Environment, "fronted", lambda self, port: framed_group(port))
    else:
        monkeypatch.setattr(Environment, "receivers", lambda self, wire: wire)
        monkeypatch.setattr(Environment, "fronted", lambda self, port: port)
