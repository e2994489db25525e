"""Two builds as one cluster: its nodes are upgraded under load, one after the other, and go back.

In: `older-commit`, the build before the upgrade. Out: verdicts of each mix of builds.
`python -m chaos.versions` is `make soak-versions`.
"""
