"""The files of a cluster's nodes, as an offline reader finds them.

In: directories of nodes, or exports. Out: their rows, each verified, and what is missing or damaged.
A file that several nodes have is read from one that has it whole.
"""
