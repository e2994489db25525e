"""What every part of a process may use: configuration, clock, chance, memory, the loop's watchdog.

In: the machine. Out: the same, read at one place each, so that the simulator can stand in for it.
A part is given the clock it uses; none reads one by itself.
"""
