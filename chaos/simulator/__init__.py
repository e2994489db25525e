"""Whole nodes in one process on virtual time: one seed is one history, on a machine of any speed.

In: seeds or a plan. Out: verdicts, the counts of faults, and the shortest plan that still goes wrong.

The file seeds.py runs many plans, run.py one, and judge.py has the checkers of a run. The rooms below are its world.
"""
