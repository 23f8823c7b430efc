"""The calls about join tokens and keys of identities of the clients' suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import borough
from faces import Face


async def join_call(face: Face, step: dict[str, Any]) -> dict[str, Any]:
    """What a step's call says of the join token of a node."""
    node = step["node"]
    join: borough.NodeJoin | None
    if step["call"] == "issue":
        lasts = step.get("lasts", 3_600_000) / 1_000
        issued = await face.do(lambda client: client.joins.issue(node, lasts=lasts))
        join = issued.join
    elif step["call"] == "list":
        rows = await face.all(lambda client: client.joins.list())
        join = next((row for row in rows if row.node == node), None)
    else:
        identity = {"revoke": False, "end": True}[step["call"]]
        join = await face.do(lambda client: client.joins.revoke(node, identity=identity))
    token = None if join is None else join.token
    return {"open": token is not None and token.used_ms == 0}


async def keys_call(face: Face, step: dict[str, Any]) -> dict[str, Any]:
    """What a step's call says of the keys of identities."""
    calls: dict[str, Callable[[Any], Any]] = {
        "list": lambda access: access.identity_keys(),
        "rotate": lambda access: access.rotate_identity_keys(ahead=step["ahead"] / 1_000),
        "withdraw": lambda access: access.withdraw_identity_keys(),
    }
    keys = await face.do(lambda client: calls[step["call"]](client.access))
    return {"count": len(keys), "next": any(key.use == borough.IdentityKeyUse.NEXT for key in keys)}
