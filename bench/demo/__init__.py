"""The runs of `make demo` and `make reconcile-demo`: a real cluster under a load, its leader killed.

In: a directory. Out: the messages that came out and when, on a terminal.
`make demo` is demo.py, and `make reconcile-demo` is reconcile.py.
"""
