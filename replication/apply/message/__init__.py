"""What a command does to messages: scheduled, leased, settled, failed, moved, taken back. Pure, as all of apply.

In: a command's columns and the store. Out: a result per row, and what became of units.
schedule.py makes units; settle.py ends them; move.py puts them elsewhere.
"""
