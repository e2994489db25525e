"""Exports for the reconciliation: a copy of a directory's rows that grows with each run.

In: the directory of a node, running or not.
Out: files with a manifest of the bytes that are durable.
A run goes on where the last one ended, even if that one was stopped. No row is written twice.
"""
