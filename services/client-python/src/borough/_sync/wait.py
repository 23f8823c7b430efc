# Generated from ../_async by `generate`. Do not edit.
"""Waits for a job: lists its rows once, then watches them, and finds out what delays it."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import BoroughError
from ..items import Resync
from ..log_query import LogQuery
from ..outage import Absent
from ..progress import Finish, Goal, KnownJob, ProgressTimer, WaitLimits, tally
from ..refs import JobRef, TaskRef
from ..results import Outcome, WaitResult
from ..v1 import Change, Cursor, Explanation, Job, JobSpec, Task, common_pb2, job_pb2, methods, task_pb2, watch_pb2
from .call import Caller
from .logs import LogReader
from .watches import CellWatch

# Lines of a failing task that a result shows, and the seconds that their reading may take.
_LINES_MAX = 10
_LOG_SECONDS = 5.0


class JobWait:
    """A wait for one job."""

    def __init__(
        self, caller: Caller, job: JobRef, limits: WaitLimits, on_progress: Callable[[str], None] | None
    ) -> None:
        self._caller, self._job, self._limits = caller, job, limits
        self._on_progress = on_progress
        self._shown = ""
        self._absent: Absent | None = None
        self._failed_log: list[str] | None = None

    def run(self, goal: Goal | None) -> WaitResult:
        """Waits until the goal is reached, cannot be reached, or the time is over. None: until the job is up."""
        begun = time.monotonic()
        end = None if self._limits.timeout is None else begun + self._limits.timeout
        known, spec, cursor = self._list()
        aim = goal or Goal.of(known.job)
        known.expect(aim)
        timer = ProgressTimer(begun)
        while True:
            with self._watch(cursor) as watch:
                finish = self._follow(watch, known, aim, spec, timer, end)
            if finish is not None:
                return self._result(known, aim, finish)
            # The watch cannot go on: the rows are listed again.
            before = known
            known, spec, cursor = self._list()
            known.expect(aim, before)

    def _follow(
        self, watch: CellWatch, known: KnownJob, goal: Goal, spec: JobSpec, timer: ProgressTimer, end: float | None
    ) -> Finish | None:
        """How the wait ends; None if the rows must be listed again."""
        while True:
            if self._failed_log is None and known.is_rollout_failed:
                # A later attempt takes its place soon.
                self._failed_log = self._log(known.failed)
            finish = known.finish(goal)
            if finish is not None:
                return finish
            self._show(known.text(goal))
            now = time.monotonic()
            deadline = self._limits.progress_of(spec.progress_deadline_ms)
            left = timer.left(known, goal, deadline, now)
            if left <= 0:
                return Finish(Outcome.TIMEOUT, f"{known.text(goal)}; no progress for {deadline:g} s; the job goes on")
            if end is not None and now >= end:
                return Finish(Outcome.TIMEOUT, self._late(known, goal))
            item = watch.poll(left if end is None else min(left, end - now))
            if isinstance(item, Resync):
                return None
            if isinstance(item, Absent):
                self._absent = item
                self._show(f"no gateway answers: {item.error}")
            elif item is not None:
                self._absent = None
            if isinstance(item, Change):
                changed(known, item, self._caller.config.user)

    def _list(self) -> tuple[KnownJob, JobSpec, Cursor]:
        """The rows of the job, and the cursor from which a watch misses nothing."""
        cell, context = self._caller.config.cell, self._caller.read()
        one = job_pb2.GetJobRequest(context=context, cell=cell, user=self._job.user, name=self._job.name)
        answer = self._caller.call(methods.GET_JOB, one)
        known = KnownJob(Job.from_message(answer.job))
        request = task_pb2.ListTasksRequest(
            context=context, cell=cell, user=self._job.user, job=self._job.name, page=common_pb2.PageRequest()
        )
        for row in self._caller.pages(methods.LIST_TASKS, request, "tasks"):
            known.task_changed(Task.from_message(row))
        return known, JobSpec.from_message(answer.spec), Cursor.from_message(answer.cursor)

    def _watch(self, cursor: Cursor) -> CellWatch:
        of_job = watch_pb2.WatchFilter(user=self._job.user, job=self._job.name, jobs=True, tasks=True)
        return CellWatch(self._caller, of_job, cursor)

    def _show(self, text: str) -> None:
        if self._on_progress is not None and text != self._shown:
            self._on_progress(text)
        self._shown = text

    def _late(self, known: KnownJob, goal: Goal) -> str:
        text = f"{known.text(goal)}; the wait ended after {self._limits.timeout:g} s; the job goes on"
        return f"{text}; no gateway answers: {self._absent.error}" if self._absent else text

    def _result(self, known: KnownJob, goal: Goal, finish: Finish) -> WaitResult:
        details: list[str] = []
        if finish.outcome is Outcome.FAILED:
            details = self._failed_log or self._log(known.failing())
        elif finish.outcome is Outcome.TIMEOUT and not goal.is_over:
            details = self._explained() + self._log(known.failing() or known.unhealthy())
        tasks = tuple(known.tasks[index] for index in sorted(known.tasks))
        return WaitResult(finish.outcome, known.job, tasks, finish.text, tuple(details))

    def _explained(self) -> list[str]:
        """Why tasks are not placed or not healthy. A result does not fail for want of an explanation."""
        request = task_pb2.ExplainTaskRequest(
            context=self._caller.read(), cell=self._caller.config.cell, user=self._job.user, job=self._job.name
        )
        try:
            answer = self._caller.call(methods.EXPLAIN_TASK, request, deadline=_LOG_SECONDS)
        except BoroughError:
            return []
        found = [Explanation.from_message(each) for each in answer.explanations]
        return [f"{tally(len(each.indexes), 'task')}: {each.summary}" for each in found]

    def _log(self, task: Task | None) -> list[str]:
        """The last lines of a task, under a line that names it."""
        if task is None:
            return []
        # A later attempt of a task that fails may have written nothing yet.
        ended = task.exit.incarnation if task.failures > 0 and task.exit is not None else task.incarnation
        # A helper that failed has kept the command from its start.
        helper = task.exit.helper if task.failures > 0 and task.exit is not None else ""
        query = LogQuery(tail_lines=_LINES_MAX, incarnation=ended or None, helper=helper)
        ref = TaskRef(self._job, task.index)
        try:
            with LogReader(self._caller, ref, query) as reader:
                data = reader.read_all(timeout=_LOG_SECONDS)
        except BoroughError:
            return []
        lines = [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
        if not lines:
            return []
        writer = f"helper {helper} of {ref}" if helper else str(ref)
        return [f"the last lines of {writer}:", *(f"  {line[:300]}" for line in lines[-_LINES_MAX:])]


def changed(known: KnownJob, change: Change, own: str) -> None:
    """Records a change."""
    if change.job is not None:
        known.job_changed(change.job, change.actor, own)
    elif change.task is not None:
        known.task_changed(change.task)
