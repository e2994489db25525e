"""The handler that writes a backup."""

from typing import Final
from urllib.parse import quote, urlunsplit

import msgspec

from api.contract.object import Fields
from api.contract.resource.backup import SNAPSHOT
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.route import Route
from api.read.backup import read_directory
from api.read.document import read_object

_SNAPSHOT: Final = Fields({"directory": read_directory})


async def snapshot(exchange: Exchange) -> Answer:
    """POST /v1/cluster/snapshot: write a consistent copy at one log index, on the disk of the node that is asked."""
    exchange.query(())
    values = read_object(await exchange.read_optional((JSON,)), _SNAPSHOT)
    written = await exchange.port.snapshot(values.get("directory"))
    location = urlunsplit(("file", written.node, quote(written.directory), "", ""))
    headers = {"Location": location, "ETag": f'"{written.applied_index}"'}
    return exchange.document(msgspec.structs.asdict(written), status=201, headers=headers)


ROUTES: Final = (Route("POST", "/v1/cluster/snapshot", snapshot, leader=False, waits=True, says=SNAPSHOT),)
"""The routes of this file."""
