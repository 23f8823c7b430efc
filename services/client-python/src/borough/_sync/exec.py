# Generated from ../_async by `generate`. Do not edit.
"""Runs a command in the environment of a running task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from .._transport.blocking import Duplex
from .._transport.common import Ended, StatusError
from ..errors import ClosedError, InvalidError
from ..refs import TaskRef
from ..requests import build, require_kind
from ..results import ExecResult
from ..tries import failed_once
from ..v1 import ExecExit, LogStream, WindowSize, methods, task_pb2
from .call import Caller

# Bytes of input in one message.
_CHUNK = 32 << 10


@dataclass(frozen=True, slots=True)
class Output:
    """Some output of a command."""

    stream: LogStream
    """Whether it is of the standard output or of the standard error."""
    data: bytes
    """What was written."""


class Exec(Iterator[Output]):
    """A command in a task: an iterator over its output. Use it in `async with`, which starts it.

    The iteration ends with the command, and `exit` then says how. Nothing is tried again once a gateway has heard of
    the command, so that it never runs twice.
    """

    def __init__(
        self, caller: Caller, task: TaskRef, command: Sequence[str], terminal: WindowSize | None, request_id: str | None
    ) -> None:
        is_list = isinstance(command, Sequence) and not isinstance(command, (str, bytes))
        if not is_list or not command or not command[0]:
            raise InvalidError.of("command", command if command else "nothing", "a list of a program and its arguments")
        self._caller = caller
        self._open = build(
            task_pb2.ExecOpen,
            context=caller.change(request_id),
            cell=caller.config.cell,
            user=task.job.user,
            job=task.job.name,
            index=task.index,
            command=command,
        )
        if terminal is not None:
            require_kind("terminal", terminal, WindowSize, "a WindowSize")
            self._open.terminal.MergeFrom(terminal.to_message())
        self._duplex: Duplex[task_pb2.ExecRequest, task_pb2.ExecResponse] | None = None
        self.exit: ExecExit | None = None
        """How the command ended; None while it runs."""

    def start(self) -> None:
        """Starts the command, unless it was started."""
        if self._duplex is None:
            first = task_pb2.ExecRequest(open=self._open)
            self._duplex = self._caller.open_duplex(methods.EXEC, first)

    def write(self, data: bytes) -> None:
        """Sends input to the command. Waits while the command is slow to read it."""
        for chunk in chunks(input_bytes(data)):
            self._send(task_pb2.ExecRequest(stdin=chunk))

    def close_input(self) -> None:
        """Ends the standard input of the command."""
        self._send(task_pb2.ExecRequest(stdin_closed=True))

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of the terminal."""
        self._send(task_pb2.ExecRequest(window=build(task_pb2.WindowSize, rows=rows, columns=columns)))

    def feed(self, data: bytes) -> None:
        """Sends all of the input and ends it, while the caller reads the output."""
        inputs = [task_pb2.ExecRequest(stdin=chunk) for chunk in chunks(input_bytes(data))]
        self._started().feed([*inputs, task_pb2.ExecRequest(stdin_closed=True)])

    def close(self) -> None:
        """Ends the stream. A command that still runs is killed."""
        if self._duplex is not None:
            self._duplex.cancel()

    def _started(self) -> Duplex[task_pb2.ExecRequest, task_pb2.ExecResponse]:
        if self._duplex is None:
            raise ClosedError("the command was not started: use it in a `with` statement")
        return self._duplex

    def _send(self, message: task_pb2.ExecRequest) -> None:
        try:
            self._started().send(message)
        except (Ended, StatusError):
            # The reader of the output learns why the stream has ended.
            return

    def __iter__(self) -> Exec:
        return self

    def __next__(self) -> Output:
        while self.exit is None:
            try:
                answer = self._started().read(None)
            except StatusError as failed:
                self._caller.check_open()
                raise failed_once(self._caller.config, methods.EXEC, failed.status) from None
            except Ended:
                self._caller.check_open()
                break
            if answer is None:
                break
            if answer.HasField("exit"):
                self.exit = ExecExit.from_message(answer.exit)
                self.close()
            elif answer.stdout:
                return Output(LogStream.STDOUT, answer.stdout)
            elif answer.stderr:
                return Output(LogStream.STDERR, answer.stderr)
        raise StopIteration

    def __enter__(self) -> Exec:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run(command: Exec, data: bytes) -> ExecResult:
    """Runs a command to its end, with all of its input."""
    written = {LogStream.STDOUT: bytearray(), LogStream.STDERR: bytearray()}
    input_bytes(data)
    with command:
        command.feed(data)
        for output in command:
            written[output.stream] += output.data
    end = command.exit
    if end is None:
        raise ClosedError("the stream of the command ended without its exit")
    return ExecResult(bytes(written[LogStream.STDOUT]), bytes(written[LogStream.STDERR]), end.code, end.signal)


def input_bytes(data: bytes) -> bytes:
    """The input of a command. A text is refused, since only the caller knows its encoding."""
    require_kind("input", data, (bytes, bytearray, memoryview), "bytes, such as those of `text.encode()`")
    return data


def chunks(data: bytes) -> Iterator[bytes]:
    """The parts in which input is sent."""
    return (data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))
