"""Used by every part of a process: configuration, clock, chance, memory, the loop's watchdog.

In: the machine. Out: the same, each thing read at one place, so that the simulator can stand in for it.
A part is given the clock that it uses. None reads a clock by itself.
"""
