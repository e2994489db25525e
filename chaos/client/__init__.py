"""The clients of a cluster under test and their record of its answers, the same on any cluster.

In: a `Client` of each node (over HTTP, or in the simulator), a `Runner` of tasks, chance. Out: events of a history.
Nothing here knows how to reach a node, or which clock runs.
"""
