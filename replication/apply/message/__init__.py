"""Applies commands that schedule, lease, settle, fail and move messages, or take leases back. Pure, as all of apply.

In: a command's columns and the store. Out: a result per row, and the changed units. schedule.py makes units, settle.py
records hand-overs and ends units, and move.py puts messages elsewhere.
"""
