"""The client for asyncio. The blocking one is generated from it."""
