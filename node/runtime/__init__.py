"""The parts that a whole process uses: configuration, clock, chance, memory, the watchdog of the event loop.

In: what the operating system says. Out: the same, read at one place each, so that the simulator can replace it. Each
part of a node is given the clock that it uses. None reads a clock by itself.
"""
