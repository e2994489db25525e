"""Runs plans of faults on real processes: the simulator's faults, done to a machine.

In: a plan or a seed. Out: a directory with plan, verdicts, timeline and evidence.
run.py is one run. faults puts the faults on, network is between the nodes.
"""
