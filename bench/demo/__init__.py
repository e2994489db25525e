"""What `make demo` and `make reconcile-demo` run: a real cluster under a load, its leader killed.

In: a directory. Out: what came out and when, on a terminal.
demo.py is the one, reconcile.py the other.
"""
