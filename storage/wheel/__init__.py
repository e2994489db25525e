"""The two-level wheel: hours, then the seconds of the near ones. Pure, and told the time.

In: units as they are scheduled, and the hours that are near.
Out: the units of each slot, in order, as their millisecond comes.
slot_read.py is where a due second is read from the chain of its hour.
"""
