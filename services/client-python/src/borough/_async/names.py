"""Names: the endpoints of jobs, for whoever balances over them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..refs import JobRef
from ..requests import build
from ..results import Selector
from ..v1 import Cursor, Endpoint, methods, name_pb2
from .call import Caller, messages_of, page_of
from .resolver import Resolver
from .watches import EndpointWatch


class Names:
    """The endpoints of the jobs of a cell."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(
        self,
        job: str | JobRef | None = None,
        *,
        user: str = "",
        selector: Selector | None = None,
        page: int | None = None,
    ) -> AsyncIterator[Endpoint]:
        """The published endpoints: of a job, of a user, or of all users."""
        ref = None if job is None else JobRef.of(job, self._caller.config.user)
        request = build(
            name_pb2.ListEndpointsRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            user=user if ref is None else ref.user,
            job="" if ref is None else ref.name,
            page=page_of(page),
            selector=messages_of(selector),
        )
        async for row in self._caller.pages(methods.LIST_ENDPOINTS, request, "endpoints"):
            yield Endpoint.from_message(row)

    def watch(self, job: str | JobRef | None = None, *, user: str = "", resume: Cursor | None = None) -> EndpointWatch:
        """Follows the endpoints of a job, or of all jobs of a user: a snapshot first, then every change, in order.

        With the cursor of an earlier watch, only the changes after it come.
        """
        if job is None:
            return EndpointWatch(self._caller, user or self._caller.config.user, "", resume)
        ref = JobRef.of(job, self._caller.config.user)
        return EndpointWatch(self._caller, ref.user, ref.name, resume)

    def resolver(self, job: str | JobRef, *, port: str | None = None) -> Resolver:
        """Keeps the addresses of a job up to date, of the port with a name or of the first one."""
        return Resolver(self.watch(job), port)
