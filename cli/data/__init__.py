"""Commands on directories: verify, export, restore, reconcile.

In: the directory of a stopped node, a backup or an export. Out: a table or JSON, or another directory.
None of them needs a node that runs.
"""
