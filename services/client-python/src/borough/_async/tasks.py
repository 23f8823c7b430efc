"""Tasks: list and explain them, read their output, run commands in them, and end their attempts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from ..log_query import LogQuery, LogWait
from ..refs import JobRef, TaskRef
from ..requests import build, require_kind, whole
from ..results import ExecResult, Selector
from ..v1 import Explanation, Task, TaskCondition, TaskState, WindowSize, methods, task_pb2
from .call import Caller, messages_of, numbers, page_of
from .exec import Exec, run
from .logs import LogReader


class Tasks:
    """The tasks of a cell. A task is named as `NAME/INDEX`, of a job of the client's user, or as `USER/NAME/INDEX`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(
        self,
        job: str | JobRef | None = None,
        *,
        user: str = "",
        node: str = "",
        states: Iterable[TaskState] = (),
        conditions: Iterable[TaskCondition] = (),
        selector: Selector | None = None,
        ended: bool = False,
        wanted: bool = False,
        index: int | None = None,
        page: int | None = None,
    ) -> AsyncIterator[Task]:
        """The tasks of a job, of a node, of a user, or of all users, by the ids of their jobs and their indexes.

        `ended` also lists tasks of jobs that are over. `wanted` leaves out what a job has no use for any more. `page`
        is the number of rows that one call asks for, 1 to 1,000.
        """
        ref = None if job is None else JobRef.of(job, self._caller.config.user)
        request = build(
            task_pb2.ListTasksRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            user=user if ref is None else ref.user,
            job="" if ref is None else ref.name,
            node=node,
            page=page_of(page),
            states=numbers("states", states),
            conditions=numbers("conditions", conditions),
            selector=messages_of(selector),
            ended=ended,
            wanted=wanted,
            index=index,
        )
        async for row in self._caller.pages(methods.LIST_TASKS, request, "tasks"):
            yield Task.from_message(row)

    async def explain(
        self, job: str | JobRef, *, index: int | None = None, elsewhere: bool = False
    ) -> tuple[Explanation, ...]:
        """Why tasks of a job are not placed or do not run as they should: of one task, or of all that wait.

        With `elsewhere` and an index: why the task has no room on another node.
        """
        ref = JobRef.of(job, self._caller.config.user)
        request = build(
            task_pb2.ExplainTaskRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            user=ref.user,
            job=ref.name,
            index=index,
            elsewhere=elsewhere,
        )
        answer = await self._caller.call(methods.EXPLAIN_TASK, request)
        return tuple(Explanation.from_message(each) for each in answer.explanations)

    def logs(
        self,
        task: str | TaskRef,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        query: LogQuery | None = None,
        on_wait: Callable[[LogWait], None] | None = None,
    ) -> LogReader:
        """The output of a task: an iterator over its parts, or `read_all` for all of it.

        `query` says more precisely what is read, instead of the two options. `on_wait` hears what the read waits for.
        """
        require_kind("query", query, (LogQuery, type(None)), "a LogQuery")
        chosen = query or LogQuery(follow=follow, tail_lines=tail_lines)
        return LogReader(self._caller, TaskRef.of(task, self._caller.config.user), chosen, on_wait)

    def exec(
        self,
        task: str | TaskRef,
        command: Sequence[str],
        *,
        terminal: WindowSize | None = None,
        request_id: str | None = None,
    ) -> Exec:
        """A command in the environment of a running task, on a terminal of this size if given."""
        return Exec(self._caller, TaskRef.of(task, self._caller.config.user), command, terminal, request_id)

    async def run(
        self,
        task: str | TaskRef,
        command: Sequence[str],
        *,
        input: bytes = b"",
        request_id: str | None = None,
    ) -> ExecResult:
        """Runs a command in a task to its end, and returns its output and its exit."""
        return await run(self.exec(task, command, request_id=request_id), input)

    async def signal(self, task: str | TaskRef, signal: int, *, request_id: str | None = None) -> None:
        """Sends a signal, 1 to 64, to the process of a running task."""
        whole("signal", signal, 1, 64)
        await self._caller.call(
            methods.SIGNAL_TASK, build(task_pb2.SignalTaskRequest, signal=signal, **self._change(task, request_id))
        )

    async def restart(self, task: str | TaskRef, *, request_id: str | None = None) -> int:
        """Ends the attempt of a task, and starts the next. Returns the number of the attempt that ends."""
        request = build(task_pb2.RestartTaskRequest, **self._change(task, request_id))
        return (await self._caller.call(methods.RESTART_TASK, request)).incarnation

    async def stop(
        self,
        task: str | TaskRef,
        *,
        expected_job: str = "",
        expected_incarnation: int = 0,
        request_id: str | None = None,
    ) -> int:
        """Ends the attempt of a task, and starts the next, preferably on another node.

        Returns the number of the attempt that ends. With the id of the job and the number of the attempt, others are
        refused.
        """
        request = build(
            task_pb2.StopTaskRequest,
            expected_job=expected_job,
            expected_incarnation=expected_incarnation,
            **self._change(task, request_id),
        )
        return (await self._caller.call(methods.STOP_TASK, request)).incarnation

    def _change(self, task: str | TaskRef, request_id: str | None) -> dict[str, Any]:
        """What every change of one task says."""
        ref = TaskRef.of(task, self._caller.config.user)
        return {
            "context": self._caller.change(request_id),
            "cell": self._caller.config.cell,
            "user": ref.job.user,
            "job": ref.job.name,
            "index": ref.index,
        }
