"""The network between real nodes: network namespaces where the machine permits them, else proxies on loopback.

In: the conditions of directed links. Out: packets and bytes that are late, lost or cut.
choose.py finds out if this machine permits namespaces.
"""
