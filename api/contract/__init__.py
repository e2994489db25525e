"""The contract of HTTP as rows: what each field and each answer may hold.

In: nothing but the types of the port. Out: checkers, bounds and schemas, which reading, the fingerprint, answers and
docs/openapi.json are made from. A new field of a message is one row of fields.py.
"""
