"""Follows the endpoints of a job with asyncio, as a load balancer does, until it is interrupted.

Against `borough dev`:  python follow_endpoints.py 127.0.0.1:7400 ~/.local/state/borough/dev/token example web
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import borough


async def main(gateway: str, token_file: str, user: str, job: str) -> None:
    """Runs the example."""
    table = borough.EndpointTable()
    async with (
        borough.AsyncClient(gateway, user=user, cell="alpha", token_file=token_file) as client,
        client.names.watch(job) as watch,
    ):
        async for item in watch:
            if isinstance(item, borough.Absent):
                print("no gateway answers; the known endpoints stay in use:", item.error)
            elif table.apply(item):
                print(f"{len(table)} endpoints:", ", ".join(borough.addresses(table)) or "none", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:5]))
