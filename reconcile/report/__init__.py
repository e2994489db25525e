"""What came out of a reconciliation, for people: one page with its pictures, and the figures beside it as JSON."""
