"""The record of a cluster under test: events in their order, and views of them that every checker reads.

In: observations of clients, nodes and the simulator. Out: `History`, its bounds, `Verdict`.
Nothing here looks at a cluster. Real processes and the simulator give the same events.
"""
