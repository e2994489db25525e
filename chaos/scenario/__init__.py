"""Plans with one kind of fault at a time. chaos/live runs and judges them.

In: the name of a scenario, and the number of its faults. Out: a directory with its plan, history, verdicts, timeline.
plans.py has the faults; run.py has the load, the bounds and the settings of each.
"""
