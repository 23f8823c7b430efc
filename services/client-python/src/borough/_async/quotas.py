"""Quotas: how much a user or a group may have admitted in a band, and how much is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ..requests import build, require_kind
from ..v1 import Band, Quota, QuotaHistory, QuotaLimit, methods, quota_pb2
from .call import Caller, number, page_of, present


class Quotas:
    """The quotas of a cell, one line for each holder and band."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(self, *, user: str = "", parent: str = "", page: int | None = None) -> AsyncIterator[Quota]:
        """The lines that were set or have charges, by holder and band: of all, or of one user or group, such as `ann`
        or `group/shop`; with `parent`, those right below this group.
        """
        request = build(
            quota_pb2.ListQuotasRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            user=user,
            parent=parent,
            page=page_of(page),
        )
        async for row in self._caller.pages(methods.LIST_QUOTAS, request, "quotas"):
            yield Quota.from_message(row)

    async def get(self, user: str, band: Band) -> QuotaHistory:
        """One line with its last changes. A line that was never set limits nothing."""
        request = build(quota_pb2.GetQuotaRequest, **self._line(user), context=self._caller.read())
        request.band = number("band", band)
        return QuotaHistory.from_message(await self._caller.call(methods.GET_QUOTA, request))

    async def set(
        self,
        user: str,
        band: Band,
        limit: QuotaLimit | None,
        *,
        expected_revision: int = 0,
        request_id: str | None = None,
    ) -> Quota:
        """Sets a line as a whole; None removes it. Admitted work beyond it stays."""
        request = build(
            quota_pb2.SetQuotaRequest,
            **self._line(user),
            context=self._caller.change(request_id),
            expected_revision=expected_revision,
        )
        request.band = number("band", band)
        if limit is not None:
            require_kind("limit", limit, QuotaLimit, "a QuotaLimit, or None")
            request.limit.MergeFrom(limit.to_message())
        answer = await self._caller.call(methods.SET_QUOTA, request)
        return Quota.from_message(present(methods.SET_QUOTA, answer, "quota"))

    def _line(self, user: str) -> dict[str, Any]:
        return {"cell": self._caller.config.cell, "user": user}
