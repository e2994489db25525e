"""What was seen of a cluster: events in their order, and views of them that every checker reads.

In: what clients, nodes and the simulator saw. Out: `History`, its bounds, `Verdict`.
Nothing here looks at a cluster; the same events come from real processes and from the simulator.
"""
