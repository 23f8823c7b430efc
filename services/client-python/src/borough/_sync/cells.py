# Generated from ../_async by `generate`. Do not edit.
"""Cells: their state, their settings, their events, and the watch of all their changes."""

from __future__ import annotations

from ..requests import build, require_kind
from ..v1 import (
    Cell,
    CellSettings,
    Cursor,
    EventList,
    WatchFilter,
    cell_pb2,
    methods,
    watch_pb2,
)
from .call import Caller, present
from .watches import CellWatch


class Cells:
    """The cells that the gateways serve. Calls without a name are about the client's cell."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self, *, load: bool = False) -> tuple[Cell, ...]:
        """Every cell. `load` also sums the real use of their nodes."""
        request = build(cell_pb2.ListCellsRequest, context=self._caller.read(), load=load)
        answer = self._caller.call(methods.LIST_CELLS, request)
        return tuple(Cell.from_message(cell) for cell in answer.cells)

    def get(self, *, load: bool = False) -> Cell:
        """The cell. Refused with `NOT_FOUND` if the gateways do not serve it."""
        request = build(cell_pb2.GetCellRequest, context=self._caller.read(), name=self._caller.config.cell, load=load)
        answer = self._caller.call(methods.GET_CELL, request)
        return Cell.from_message(present(methods.GET_CELL, answer, "cell"))

    def cursor(self) -> Cursor:
        """The present position in the order of changes: a watch from here misses nothing that follows."""
        request = build(cell_pb2.GetCellRequest, context=self._caller.read(), name=self._caller.config.cell)
        answer = self._caller.call(methods.GET_CELL, request)
        return Cursor.from_message(present(methods.GET_CELL, answer, "cursor"))

    def update(self, settings: CellSettings, *, expected_revision: int = 0, request_id: str | None = None) -> Cell:
        """Changes settings of the cell. Absent settings stay."""
        request = build(
            cell_pb2.UpdateCellRequest,
            context=self._caller.change(request_id),
            name=self._caller.config.cell,
            expected_revision=expected_revision,
        )
        require_kind("settings", settings, CellSettings, "CellSettings")
        request.settings.MergeFrom(settings.to_message())
        answer = self._caller.call(methods.UPDATE_CELL, request)
        return Cell.from_message(present(methods.UPDATE_CELL, answer, "cell"))

    def watch(self, filter: WatchFilter | None = None, *, resume: Cursor | None = None) -> CellWatch:
        """All changes of the cell that a filter selects, after a cursor or from now, in order."""
        message = watch_pb2.WatchFilter()
        if filter is not None:
            require_kind("filter", filter, WatchFilter, "a WatchFilter")
            message.MergeFrom(filter.to_message())
        return CellWatch(self._caller, message, resume)

    def events(self, filter: WatchFilter | None = None, *, limit: int = 0) -> EventList:
        """The newest events that a filter selects, the newest last: at most `limit`, and 100 if it is 0."""
        request = build(
            watch_pb2.ListEventsRequest, context=self._caller.read(), cell=self._caller.config.cell, limit=limit
        )
        if filter is not None:
            require_kind("filter", filter, WatchFilter, "a WatchFilter")
            request.filter.MergeFrom(filter.to_message())
        return EventList.from_message(self._caller.call(methods.LIST_EVENTS, request))
