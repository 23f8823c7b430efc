"""Access: who may do what in a cell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from ..requests import build, require_kind
from ..v1 import AccessAnswer, AccessHolders, Grant, GrantHistory, access_pb2, methods
from .call import Caller, page_of, present


class Access:
    """The grants of a cell."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(self, *, page: int | None = None) -> AsyncIterator[Grant]:
        """The grants by subject."""
        request = build(
            access_pb2.ListGrantsRequest, context=self._caller.read(), cell=self._caller.config.cell, page=page_of(page)
        )
        async for row in self._caller.pages(methods.LIST_GRANTS, request, "grants"):
            yield Grant.from_message(row)

    async def get(self, subject: str) -> GrantHistory:
        """The grant of `user/NAME` or `group/NAME`, with its last changes. One that was never set gives nothing."""
        request = build(
            access_pb2.GetGrantRequest, context=self._caller.read(), cell=self._caller.config.cell, subject=subject
        )
        return GrantHistory.from_message(await self._caller.call(methods.GET_GRANT, request))

    async def set(self, grant: Grant, *, expected_revision: int = 0, request_id: str | None = None) -> Grant:
        """Sets the grant of its subject as a whole. Without roles and rights it is taken away."""
        request = build(
            access_pb2.SetGrantRequest,
            context=self._caller.change(request_id),
            cell=self._caller.config.cell,
            expected_revision=expected_revision,
        )
        require_kind("grant", grant, Grant, "a Grant")
        request.grant.MergeFrom(grant.to_message())
        answer = await self._caller.call(methods.SET_GRANT, request)
        return Grant.from_message(present(methods.SET_GRANT, answer, "grant"))

    async def check(
        self, action: str, *, owner: str = "", subject: str = "", groups: Iterable[str] = ()
    ) -> AccessAnswer:
        """Whether the caller, or another subject, may do something, and why.

        `action` is the name of a right, such as `read`, or of a method of the API, such as `StopJob`. `owner` is the
        user that owns the jobs; empty: the caller. `groups` are those of another subject.
        """
        request = build(
            access_pb2.CheckAccessRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            action=action,
            owner=owner,
            subject=subject,
            groups=groups,
        )
        return AccessAnswer.from_message(await self._caller.call(methods.CHECK_ACCESS, request))

    async def holders(self, action: str, *, owner: str = "") -> AccessHolders:
        """The users and groups that may do something, for the work of `owner`; empty: of everybody."""
        request = build(
            access_pb2.ListHoldersRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            action=action,
            owner=owner,
        )
        return AccessHolders.from_message(await self._caller.call(methods.LIST_HOLDERS, request))
