"""Runs plans of faults on real processes: faults as in the simulator, put on real nodes and their machine.

In: a plan or a seed. Out: a directory with plan, verdicts, timeline and evidence.
run.py is one run. The room faults puts the faults on, the room network carries the nodes' connections.
"""
