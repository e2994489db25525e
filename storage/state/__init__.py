"""The newest state of each unit of an hour, in pages.

In: settle records in their order. Out: state, attempt, term and end of lease of any unit, and what is still open.
Pages lie in files of their own; what came behind them is read from the settle file's tail.
"""
