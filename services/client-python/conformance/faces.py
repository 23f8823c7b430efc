"""The two faces of the client behind one interface, so that each operation of the suite is written once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import borough


class Watched:
    """What a watch in the background has yielded so far."""

    def __init__(self) -> None:
        self.items: list[borough.EndpointItem] = []
        self.cursors: list[borough.Cursor | None] = []
        self.table = borough.EndpointTable()
        self.error: BaseException | None = None

    def take(self, item: borough.EndpointItem, cursor: borough.Cursor | None) -> None:
        """Records an item, and the cursor of the watch after it."""
        self.items.append(item)
        self.cursors.append(cursor)
        self.table.apply(item)


class AsyncFace:
    """The client for asyncio."""

    name = "asyncio"

    def __init__(self, config: borough.ClientConfig) -> None:
        self.client = borough.AsyncClient.of(config)

    async def do(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """The result of one call."""
        return await call(self.client)

    async def all(self, rows: Callable[[Any], AsyncIterator[Any]]) -> list[Any]:
        """The rows of a list."""
        return [row async for row in rows(self.client)]

    async def watch(self, job: str) -> tuple[Watched, Callable[[], Awaitable[None]]]:
        """A watch in the background, and what ends it."""
        watched, watch = Watched(), self.client.names.watch(job)
        before = asyncio.all_tasks()

        async def follow() -> None:
            try:
                async for item in watch:
                    watched.take(item, watch.cursor)
            except Exception as error:
                watched.error = error

        following = asyncio.ensure_future(follow())

        async def end() -> None:
            await watch.close()
            await asyncio.wait_for(following, 5)
            left = {task for task in asyncio.all_tasks() - before if "transport" in str(task.get_coro())}
            assert not left, f"the watch leaves tasks: {left}"

        return watched, end

    async def logs_contain(self, task: str, text: str, seconds: float) -> bool:
        """Follows the output of a task until it contains a text."""
        data = b""
        async with self.client.tasks.logs(task, follow=True) as reader:

            async def read() -> bool:
                nonlocal data
                async for part in reader:
                    data += part.data
                    if text.encode() in data:
                        return True
                return False

            try:
                return await asyncio.wait_for(read(), seconds)
            except asyncio.TimeoutError:
                return False

    async def resolve(self, job: str, port: str | None, count: int, seconds: float) -> list[str]:
        """The addresses of the resolver, as soon as there are so many."""
        end = time.monotonic() + seconds
        async with self.client.names.resolver(job, port=port) as resolver:
            found: list[str] | None = await resolver.addresses(timeout=seconds)
            while found is not None and len(found) != count and time.monotonic() < end:
                found = await resolver.changed(timeout=end - time.monotonic())
            return found or []

    async def close(self) -> None:
        """Closes the client."""
        await self.client.close()


class BlockingFace:
    """The blocking client, used from threads."""

    name = "blocking"

    def __init__(self, config: borough.ClientConfig) -> None:
        self.client = borough.Client.of(config)

    async def do(self, call: Callable[[Any], Any]) -> Any:
        """The result of one call."""
        return await asyncio.to_thread(call, self.client)

    async def all(self, rows: Callable[[Any], Iterator[Any]]) -> list[Any]:
        """The rows of a list."""
        return await asyncio.to_thread(lambda: list(rows(self.client)))

    async def watch(self, job: str) -> tuple[Watched, Callable[[], Awaitable[None]]]:
        """A watch in the background, and what ends it."""
        watched, watch = Watched(), self.client.names.watch(job)
        before = set(threading.enumerate())

        def follow() -> None:
            try:
                for item in watch:
                    watched.take(item, watch.cursor)
            except Exception as error:
                watched.error = error

        following = threading.Thread(target=follow, name="borough-follow", daemon=True)
        following.start()

        def close() -> None:
            watch.close()
            following.join(5)
            assert not following.is_alive(), "the watch does not end within five seconds"
            own = [each.name for each in set(threading.enumerate()) - before if each.name == "borough-follow"]
            assert not own, f"the watch leaves threads: {own}"

        async def end() -> None:
            await asyncio.to_thread(close)

        return watched, end

    async def logs_contain(self, task: str, text: str, seconds: float) -> bool:
        """Follows the output of a task until it contains a text."""

        def read() -> bool:
            data = b""
            with self.client.tasks.logs(task, follow=True) as reader:
                # An iterator of a thread ends when the reader is closed.
                timer = threading.Timer(seconds, reader.close)
                timer.start()
                try:
                    for part in reader:
                        data += part.data
                        if text.encode() in data:
                            return True
                finally:
                    timer.cancel()
            return False

        return await asyncio.to_thread(read)

    async def resolve(self, job: str, port: str | None, count: int, seconds: float) -> list[str]:
        """The addresses of the resolver, as soon as there are so many."""

        def find() -> list[str]:
            end = time.monotonic() + seconds
            with self.client.names.resolver(job, port=port) as resolver:
                found: list[str] | None = resolver.addresses(timeout=seconds)
                while found is not None and len(found) != count and time.monotonic() < end:
                    found = resolver.changed(timeout=end - time.monotonic())
                return found or []

        return await asyncio.to_thread(find)

    async def close(self) -> None:
        """Closes the client."""
        await asyncio.to_thread(self.client.close)


Face = AsyncFace | BlockingFace
