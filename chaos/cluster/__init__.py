"""Real `hourwheel serve` processes on this machine, and the handles to break them.

In: a directory, how many nodes, their settings. Out: nodes that run, with ports, links, disks and clocks to break.
cluster.py starts and ends the nodes, network.py has their addresses.
"""
