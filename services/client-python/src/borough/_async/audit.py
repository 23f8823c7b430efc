"""The audit: who has changed what in a cell, and who was refused."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..requests import build, require_kind
from ..v1 import AuditedCall, AuditFilter, audit_pb2, methods
from .call import Caller, page_of


class Audit:
    """The audit of a cell. Reading it needs the right to administer."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(self, calls: AuditFilter | None = None, *, page: int | None = None) -> AsyncIterator[AuditedCall]:
        """The calls that changed something or were refused, the newest first: those of the filter, or all."""
        request = build(
            audit_pb2.ListAuditRequest, context=self._caller.read(), cell=self._caller.config.cell, page=page_of(page)
        )
        if calls is not None:
            require_kind("calls", calls, AuditFilter, "an AuditFilter, or None")
            request.filter.MergeFrom(calls.to_message())
        async for row in self._caller.pages(methods.LIST_AUDIT, request, "calls"):
            yield AuditedCall.from_message(row)
