"""`python -m cli` is the `hourwheel` command, for where the script is not on the path (nodes started by `dev`, by
tests).
"""

from cli.main import main

main(prog_name="hourwheel")
