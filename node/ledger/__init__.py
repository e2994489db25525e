"""GET /v1/ledger: what was handed over, by whom, and what of it is missing or repeated.

In: the records of all members, asked for. Out: judged rows, page by page, and what could not be seen. The package
`ledger/` has the rules.
"""
