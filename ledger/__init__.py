"""Decides from the records alone what became of each message: pure, one home hour's part at a time.

The node answers `/v1/ledger` with it, Spark reconciles with it, chaos checks against it. All use one set of rules, so
their figures cannot differ.
"""
