"""Scripts of one kind of fault at a time, on real processes, each judged.

In: the name of a scenario, how often. Out: a trial: history, verdicts, timeline.
trial.py has one run; checker.py names who judges it.
"""
