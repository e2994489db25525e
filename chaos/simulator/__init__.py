"""Whole nodes in one process on virtual time: one seed is one history, on a machine of any speed.

In: seeds or a plan. Out: verdicts, the counts of faults, and the shortest plan that still goes wrong.

The file seeds.py runs many, run.py one, and judge.py has its checkers. The rooms below are the world of a run.
"""
