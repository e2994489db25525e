"""Whole nodes in one process on virtual time: one seed is one history, whatever the machine does meanwhile.

In: seeds or a plan. Out: verdicts, what fired, and the shortest plan that still goes wrong.
seeds.py runs many, run.py one, judge.py has its checkers; the rooms below are the world it runs in.
"""
