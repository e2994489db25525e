"""What came out of a reconciliation, for people: one page with its pictures, and the figures beside it as JSON.

In: the output's rows and counts. Out: one HTML file that needs no other, and figures.json.
Nothing is judged here: what the page says, the output's tables hold.
"""
