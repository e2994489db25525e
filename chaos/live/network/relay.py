"""Delays, loses, doubles or throttles packets between nodes: a process of its own in the switch.

Kernels often lack the queueing discipline that does this (netem), and none of it works without root. But a packet can
be redirected into a tap device wherever there is one, and a program can do anything with it. Only packets of links with
a fault pass through here. The others stay in the kernel.

Each packet is treated by itself, as on a bad line. Each gets a new random delay, so packets overtake each other. TCP
sees a loss as a loss.

Commands come on stdin, one JSON object a line: the conditions of all links by `source>target` (IPv4 addresses). Each
replaces the ones before. The process ends when stdin does.
"""

import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import sys
import time
from typing import Final

from chaos.cluster.links import Condition

TAP: Final = "shaped"
TUNSETIFF: Final = 0x400454CA
IFF_TAP_NO_PI: Final = 0x0002 | 0x1000
FRAME_BYTES: Final = 65_536
#: At most this many packets are read before those that wait are sent.
BURST: Final = 64
#: The longest queue of a link with a bandwidth, as the time that it takes to send it. A packet that finds a longer one
#: is lost.
QUEUE_S: Final = 0.4
#: The places of the two IPv4 addresses in an Ethernet frame.
SOURCE: Final = slice(26, 30)
TARGET: Final = slice(30, 34)

Pair = bytes  # source and target, four bytes each


class Line:
    """One direction between two nodes, with its condition. It decides when a frame is sent on, and how often."""

    def __init__(self, condition: Condition, chance: random.Random) -> None:
        self.condition, self._chance = condition, chance
        self._free_s = 0.0

    def moments(self, now_s: float, size: int) -> list[float]:
        """The moments when the frame goes on: none if it is lost, two if it is doubled."""
        condition = self.condition
        if condition.loss and self._chance.random() < condition.loss:
            return []
        at_s = now_s
        if condition.bits_per_s:
            if self._free_s - now_s > QUEUE_S:
                return []
            self._free_s = max(self._free_s, now_s) + size * 8 / condition.bits_per_s
            at_s = self._free_s
        times = 2 if condition.duplicate and self._chance.random() < condition.duplicate else 1
        return [at_s + self._chance.uniform(condition.low_s, condition.high_s) for _ in range(times)]


def lines_of(text: str, before: dict[Pair, Line], chance: random.Random) -> dict[Pair, Line]:
    """Return the lines that a command asks for, by source and target. A line whose condition is unchanged is the one
    from `before`, with its queue."""
    lines: dict[Pair, Line] = {}
    for name, fields in json.loads(text).items():
        source, target = map(socket.inet_aton, name.split(">"))
        condition, known = Condition(**fields), before.get(source + target)
        lines[source + target] = known if known and known.condition == condition else Line(condition, chance)
    return lines


def open_tap(name: str) -> int:
    """The descriptor of a new tap device. Raises OSError."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI))
    return tap


def main() -> None:
    """Run until stdin ends. Print `ready` when the device is there."""
    chance = random.Random(sys.argv[1])
    tap = open_tap(TAP)
    os.set_blocking(0, False)
    print("ready", flush=True)
    lines: dict[Pair, Line] = {}
    waiting: list[tuple[float, int, bytes]] = []
    heard, number = b"", 0
    while True:
        until_s = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else None
        readable, _, _ = select.select([0, tap], [], [], until_s)
        if 0 in readable:
            more = os.read(0, FRAME_BYTES)
            if not more:
                return
            *commands, heard = (heard + more).split(b"\n")
            for command in commands:
                lines = lines_of(command.decode(), lines, chance)
        for frame in _frames(tap) if tap in readable else ():
            line, now_s = lines.get(frame[SOURCE] + frame[TARGET]), time.monotonic()
            for at_s in line.moments(now_s, len(frame)) if line else [now_s]:
                number += 1
                heapq.heappush(waiting, (at_s, number, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            os.write(tap, heapq.heappop(waiting)[2])


def _frames(tap: int) -> list[bytes]:
    frames: list[bytes] = []
    try:
        while len(frames) < BURST:
            frames.append(os.read(tap, FRAME_BYTES))
    except BlockingIOError:
        pass
    return frames


if __name__ == "__main__":
    main()
