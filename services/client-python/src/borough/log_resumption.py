"""Decides where a broken read of a log goes on. Pure."""

from __future__ import annotations

from .v1 import task_pb2


class LogResumption:
    """The delivered part of the output of one attempt."""

    def __init__(self, request: task_pb2.ReadLogsRequest) -> None:
        self.request = request
        """The request that goes on behind everything that was delivered."""
        self.is_positioned = False
        """Whether some answer had a position. Older gateways send none."""
        self.is_lost = False
        """Whether an answer without a position was delivered: the read cannot go on behind it."""

    def delivered(self, part: task_pb2.ReadLogsResponse) -> None:
        """Records an answer that is delivered."""
        if part.incarnation > 0:
            self.request.incarnation = part.incarnation
        if not part.HasField("next"):
            self.is_lost = self.is_lost or bool(part.data)
            return
        self.is_positioned = True
        if part.stream == task_pb2.ReadLogsRequest.STDERR:
            self.request.stderr_from.CopyFrom(part.next)
        else:
            self.request.stdout_from.CopyFrom(part.next)
