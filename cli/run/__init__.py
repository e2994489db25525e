"""Commands that run or steer nodes: serve, dev, listen, cluster, node, chaos.

In: a command's words and a config file. Out: processes, or one request to a node.
One file a command; stray_variable.py, tolerant_output.py and parent.py are what processes need.
"""
