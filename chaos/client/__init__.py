"""What clients of a cluster under test do, and what they write down of its answers; the same on any cluster.

In: a `Client` of each node (over HTTP, or in the simulator), a `Runner` of tasks, chance. Out: events of a history.
Nothing here knows how a node is reached, nor whose time it is.
"""
