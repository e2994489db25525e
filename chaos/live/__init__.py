"""Plans of faults carried out on real processes: what the simulator does to a model, done to a machine.

In: a plan or a seed. Out: a directory with plan, verdicts, timeline and evidence.
run.py is one run; faults does what the plan says, network is between the nodes.
"""
