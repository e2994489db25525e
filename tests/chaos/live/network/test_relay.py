"""What the relay does to packets, and which packets the switch's filters pick out."""

import json
import random
import struct
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.cluster.links import Condition
from chaos.live.network.namespaces import NO, SHOT, UNSPECIFIED, matching
from chaos.live.network.relay import QUEUE_S, Line, lines_of
from tests.examples import examples

ADDRESSES = st.integers(1, 2**32 - 1).map(lambda number: str(IPv4Address(number)))


def decide(program: str, frame: bytes) -> int:
    """What a filter's bytecode says of a frame, by the rules of the classic packet filter."""
    count, *steps = program.split(",")
    assert int(count) == len(steps)
    at, register = 0, 0
    while True:
        code, yes, no, operand = map(int, steps[at].split())
        at += 1
        match code:
            case 40:
                (register,) = struct.unpack_from(">H", frame, operand)
            case 32:
                (register,) = struct.unpack_from(">I", frame, operand)
            case 21:
                at += yes if register == operand else no
            case 6:
                return operand
            case _:
                raise AssertionError(f"unknown step {code}")


def frame_to(address: str, ethertype: int = 0x0800) -> bytes:
    """An Ethernet frame; all else of it is noise."""
    return b"\xff" * 12 + struct.pack(">H", ethertype) + b"\x45" * 16 + IPv4Address(address).packed + b"\x00" * 20


@examples(100)
@given(st.lists(ADDRESSES, max_size=8, unique=True), ADDRESSES)
def test_filter_picks_what_goes_to_its_addresses(addresses: list[str], other: str) -> None:
    """IPv4 to one of them, nothing else: what finds addresses (ARP) passes, and so does IPv6."""
    program = matching(addresses, SHOT, UNSPECIFIED)
    assert all(decide(program, frame_to(address)) == SHOT for address in addresses)
    assert decide(program, frame_to(other)) == (SHOT if other in addresses else UNSPECIFIED)
    assert all(decide(program, frame_to(address, 0x0806)) == UNSPECIFIED for address in addresses)
    assert decide(matching([], UNSPECIFIED, NO), frame_to(other)) == NO


def line(**fields: float) -> Line:
    """A line in this condition."""
    return Line(Condition(**fields), random.Random(1))  # type: ignore[arg-type]


def test_share_of_packets_is_lost_and_doubled() -> None:
    """The share, within what chance allows."""
    came = [len(line_.moments(0.0, 1_000)) for line_ in [line(loss=0.3)] for _ in range(10_000)]
    assert sum(came) == pytest.approx(7_000, abs=200)
    came = [len(line_.moments(0.0, 1_000)) for line_ in [line(duplicate=0.2)] for _ in range(10_000)]
    assert sum(came) == pytest.approx(12_000, abs=200)


def test_packets_overtake_each_other() -> None:
    """Each delay is drawn anew: sent in order, they arrive within the bounds and in another order."""
    jittery = line(low_s=0.02, high_s=0.08)
    moments = [moment for sent in range(100) for moment in jittery.moments(sent / 1_000, 1_000)]
    assert all(0.02 <= at_s - sent / 1_000 <= 0.08 for sent, at_s in enumerate(moments))
    assert moments != sorted(moments)


def test_narrow_line_sends_one_after_the_other_and_drops_what_its_queue_cannot_hold() -> None:
    """A million bits a second: 1,250 bytes each 10 ms; after 400 ms of them the next is lost."""
    narrow = line(bits_per_s=1e6)
    moments = [narrow.moments(0.0, 1_250) for _ in range(60)]
    came = [at_s for several in moments for at_s in several]
    assert came == pytest.approx([0.01 * (number + 1) for number in range(len(came))])
    assert len(came) * 0.01 == pytest.approx(QUEUE_S, abs=0.03)
    assert narrow.moments(1.0, 1_250) == [pytest.approx(1.01)]


def test_command_keeps_what_a_line_holds_that_stays() -> None:
    """Another fault elsewhere does not empty a narrow line's queue."""
    narrow, slow = {"bits_per_s": 1e6}, {"low_s": 0.1, "high_s": 0.2}
    before = lines_of(json.dumps({"10.0.0.1>10.0.0.2": narrow, "10.0.0.2>10.0.0.1": slow}), {}, random.Random(1))
    after = lines_of(json.dumps({"10.0.0.1>10.0.0.2": narrow, "10.0.0.2>10.0.0.1": narrow}), before, random.Random(1))
    there, back = bytes([10, 0, 0, 1, 10, 0, 0, 2]), bytes([10, 0, 0, 2, 10, 0, 0, 1])
    assert after[there] is before[there]
    assert after[back] is not before[back]
