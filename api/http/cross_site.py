"""Refuses requests that a browser sends for a page of another site. Its owner would act with the user's access."""

from collections.abc import Collection, Mapping
from ipaddress import ip_address

from api.port.problem import Problem


def refuse_other_sites(headers: Mapping[str, str], names: Collection[str]) -> None:
    """`forbidden` where a page asks that is not this node's own. `names`: under which browsers may use it."""
    origin = headers.get("Origin")
    if origin is None and headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
        return
    host = headers.get("Host", "")
    if origin not in (f"http://{host}", f"https://{host}") or not is_own_name(host, names):
        raise Problem(
            "forbidden",
            "this comes from a page of another site, or of a name that is not this node's; "
            "[http] names lists the names under which browsers may use it",
        )


def is_own_name(host: str, names: Collection[str]) -> bool:
    """Whether a browser that uses this Host header has reached the node that it meant: the owner of any other name may
    have given it this node's address. Of an address that is written out nobody can."""
    name, _, number = host.rpartition(":")
    if not number.isdigit():
        name = host
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return name.lower() in names
    return True
