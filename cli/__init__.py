"""The `hourwheel` command.

In: the words of a command line. Out: a table or JSON on stdout, an exit code (node/runtime/exit_code.py).
main.py names every command and its module; option.py and output.py are what commands share.
"""
