"""The newest state of each unit of an hour, in pages.

In: settle records in their order.
Out: state, attempt, term and end of the lease of any unit, and the open units.
Pages lie in files of their own. Later records are read from the settle file's tail.
"""
