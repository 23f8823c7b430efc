"""How messages reach a gateway: over grpcio, once for asyncio and once for blocking code."""
