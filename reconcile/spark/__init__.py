"""Spark over those files: a data source, sessions, tasks.

In: paths and options. Out: Arrow batches of the tables in schema.py, as a batch or as a stream.
java.py and standalone.py start what Spark needs where there is nothing but Python.
"""
