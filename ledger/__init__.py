"""Rules that decide from the records alone what became of each message. They are pure, and judge one Bucket at a time.

`GET /v1/ledger`, the reconciliation in Spark and the checks of chaos all use these rules, so their figures cannot
differ.
"""
