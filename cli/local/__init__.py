"""The processes of nodes on this machine: where they live, how one starts, and when it ends.

In: a directory, ports, settings. Out: config files and `hourwheel serve` processes.
`hourwheel dev`, the chaos tests, the demo and the benchmarks start their nodes here.
"""
