"""Plans of one kind of fault at a time, carried out by chaos/live and judged.

In: the name of a scenario, how often. Out: a directory with its plan, history, verdicts, timeline.
plans.py has the faults; run.py the load, the bounds and the settings of each.
"""
