"""Whole nodes in one process on virtual time: one seed is one history, on a machine of any speed.

In: seeds or a plan. Out: verdicts, the counts of faults, and for a run that breaks a promise the shortest plan found
that still breaks it.

The file seeds.py runs many plans, run.py one, and judge.py has the checkers of a run. The rooms below are its world.
"""
