"""A simulated socket as a protocol has it: it tells when the other side does not read."""

from types import SimpleNamespace
from typing import Any

from chaos.simulator.network.stream import HIGH_BYTES, KERNEL_BYTES, StreamTransport
from tests.chaos.simulator.network.test_network import Lab

MIB = 1024 * 1024


def test_a_slow_way_tells_the_protocol_to_write_no_more_until_it_may() -> None:
    """What the kernels take is not told of. All arrives, in order."""
    lab, told = Lab(), list[str]()
    lab.network.bandwidth("a", "b", float(MIB))
    protocol = SimpleNamespace(
        connection_made=lambda _: None,
        pause_writing=lambda: told.append("pause"),
        resume_writing=lambda: told.append("resume"),
    )
    loop: Any = None
    transport = StreamTransport(lab.dial(), loop)
    transport.begin(protocol)
    transport.write(bytes(KERNEL_BYTES))
    assert told == []
    for _ in range(2):
        transport.write(bytes(HIGH_BYTES + 1))
    assert told == ["pause"]
    lab.scheduler.run(lab.scheduler.now + 10)
    assert told == ["pause", "resume"]
    assert sum(len(piece) for piece in lab.at_b if isinstance(piece, bytes)) == KERNEL_BYTES + 2 * (HIGH_BYTES + 1)
    transport.write(b"more")
    assert told == ["pause", "resume"]
