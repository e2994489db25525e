"""Measurements of designs that are not built yet, so that an ADR can decide by figures.

In: a real store on a disk, and the real apply. Out: a table.
The parts that do not exist yet are made here, of the store's own functions. No node imports them.
"""
