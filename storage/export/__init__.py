"""What is shipped for the reconciliation: a copy of a directory's rows that grows by runs.

In: the directory of a node, running or not. Out: files with a manifest that says which bytes are sure.
A run that was stopped is gone on with; nothing is written twice.
"""
