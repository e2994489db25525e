"""A leader that was hit and not followed by another turns the verdict red."""

import msgspec

from chaos.check.engine.yields import check_yields
from chaos.history.bounds import Bounds
from chaos.history.event import Event, Fault, Led
from chaos.history.history import History
from tests.chaos.history.planted import at


def test_a_leader_that_is_hit_and_not_followed() -> None:
    """yields: one that was killed and leads on, as far as anybody saw, or is hit again; a clock that is far off."""

    def yields(*events: Event) -> list[str]:
        return check_yields(History(events), Bounds()).faults

    def hit(ms: float, kind: str, phase: str = "begin", detail: str = "") -> Fault:
        fault = {"kind": kind, "node": "n1", "role": "leader", "phase": phase, "detail": detail} | at(ms)
        return msgspec.convert(fault | {"type": "Fault"}, Fault)

    first, second = Led(term=1, leader="n1", **at(0)), Led(term=2, leader="n2", **at(50))
    assert yields(first, hit(10, "kill"), second, hit(60, "kill", "end")) == []
    assert yields(first, hit(10, "pause"), second, hit(60, "pause", "end")) == []
    assert len(yields(first, hit(10, "pause"), hit(20, "pause", "end"), second)) == 1
    assert len(yields(first, hit(10, "kill"), hit(20, "kill", "end"), hit(40, "kill"), second)) == 1
    assert len(yields(first, second, hit(60, "stop"))) == 1
    far, off = "for=+1.500 by=-10.000", "for=+1.500 by=0.300"
    assert len(yields(first, hit(10, "jump", detail=far), hit(20, "jump", "end", far), second)) == 1
    assert yields(first, hit(10, "jump", detail=far), second, hit(60, "jump", "end", far)) == []
    assert yields(first, hit(10, "jump", detail=off), hit(20, "jump", "end", off)) == []
