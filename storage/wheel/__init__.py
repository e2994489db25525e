"""The two-level wheel: hours, then the seconds of the near ones. Pure, and given the time.

In: scheduled units, and the near hours.
Out: the units of each slot, in order, as their millisecond comes.
The code that reads a due second from the chain of its hour is in slot_read.py.
"""
