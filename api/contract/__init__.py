"""The contract of HTTP as rows: the values that each field and each answer may hold.

In: the types of the port only. Out: checkers, bounds and schemas. Reading, the fingerprint, answers and
docs/openapi.json are made from them. A new field of a message is one row of fields.py.
"""
