"""Refuses requests that a browser sends for a page of another site. The page's owner would act with the user's
access."""

from collections.abc import Collection, Mapping
from ipaddress import ip_address

from api.port.problem import Problem


def refuse_other_sites(headers: Mapping[str, str], names: Collection[str]) -> None:
    """Raise `forbidden` for a request from a page that is not this node's own. `names`: the host names under which
    browsers may reach this node."""
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
    """True if a browser with this Host header has reached the node that it meant. The owner of any other name may have
    let that name resolve to this node's address. A Host that is an IP address is always accepted, because no name was
    resolved."""
    name, _, number = host.rpartition(":")
    if not number.isdigit():
        name = host
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return name.lower() in names
    return True
