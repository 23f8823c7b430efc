import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Job, JobKind, JobSchema, JobState, RolloutState } from "../src/gen/borough/v1/job_pb.js";
import { EndReason, Health, StopReason, type Task, TaskSchema, TaskState } from "../src/gen/borough/v1/task_pb.js";
import { type Goal, goalOf, KnownJob, ProgressTimer } from "../src/job/progress.js";

const UP: Goal = { goal: "up" };
const OVER: Goal = { goal: "over" };

function job(fields: MessageInitShape<typeof JobSchema> = {}): Job {
  const base = { id: "j1", user: "ada", name: "web", count: 2, kind: JobKind.SERVICE, state: JobState.RUNNING };
  return create(JobSchema, { ...base, revision: 1n, ...fields });
}

function task(index: number, fields: MessageInitShape<typeof TaskSchema> = {}): Task {
  return create(TaskSchema, { jobId: "j1", index, state: TaskState.RUNNING, revision: 1n, ...fields });
}

function healthy(index: number): Task {
  return task(index, { health: Health.HEALTHY });
}

function outcome(known: KnownJob, goal: Goal): string {
  const progress = known.progress(goal);
  return progress.state === "over" ? progress.outcome : progress.state;
}

test("a service is healthy when every task is, and none beyond the count runs any more", () => {
  assert.equal(outcome(new KnownJob(job(), [healthy(0)]), UP), "underway");
  assert.equal(outcome(new KnownJob(job(), [healthy(0), task(1)]), UP), "underway", "it runs, and is not healthy");
  assert.equal(outcome(new KnownJob(job(), [healthy(0), healthy(1)]), UP), "healthy");
  assert.equal(outcome(new KnownJob(job(), [healthy(0), healthy(1), healthy(2)]), UP), "underway", "one too many");
  const lost = task(2, { state: TaskState.LOST });
  assert.equal(outcome(new KnownJob(job(), [healthy(0), healthy(1), lost]), UP), "healthy");
  assert.equal(outcome(new KnownJob(job({ count: 0 }), []), UP), "healthy");
});

test("a task that is dead for good makes a service fail, and one that shrank away does not", () => {
  const dead = task(1, {
    state: TaskState.DEAD,
    failures: 3,
    exit: { reason: EndReason.EXITED, code: 7 },
  });
  const progress = new KnownJob(job(), [healthy(0), dead]).progress(UP);
  assert.ok(progress.state === "over" && progress.outcome === "failed");
  assert.match(progress.why, /task ada\/web\/1 is dead: task 1 exited with code 7/);
  const stopped = task(1, { state: TaskState.DEAD, stop: StopReason.JOB_SHRUNK });
  assert.equal(outcome(new KnownJob(job(), [healthy(0), stopped]), UP), "underway");
});

test("batch work is over when its job is", () => {
  const batch = (state: JobState) => new KnownJob(job({ kind: JobKind.BATCH, state }), [healthy(0), healthy(1)]);
  assert.equal(outcome(batch(JobState.RUNNING), UP), "underway");
  assert.equal(outcome(batch(JobState.SUCCEEDED), UP), "succeeded");
  assert.equal(outcome(batch(JobState.FAILED), UP), "failed");
  assert.equal(outcome(batch(JobState.DEPENDENCY_FAILED), UP), "failed");
});

test("a stop ends both waits, and names who else has stopped the job", () => {
  const known = new KnownJob(job(), []);
  known.jobChanged(job({ state: JobState.STOPPING, revision: 2n }), "user/bob", "ada");
  assert.equal(outcome(known, OVER), "underway");
  const progress = known.progress(UP);
  assert.ok(progress.state === "over" && progress.outcome === "stopped");
  assert.match(progress.why, /was stopped meanwhile by bob/);
  known.jobChanged(job({ state: JobState.STOPPED, revision: 3n }), "controller", "ada");
  assert.equal(outcome(known, OVER), "stopped");
});

test("a state of a newer gateway is waited through", () => {
  assert.equal(outcome(new KnownJob(job({ state: 42 as JobState }), []), UP), "underway");
  assert.equal(outcome(new KnownJob(job({ state: 42 as JobState }), []), OVER), "underway");
});

test("older rows, and rows of another job of the name, change nothing", () => {
  const known = new KnownJob(job({ revision: 5n }), [healthy(0)]);
  known.jobChanged(job({ revision: 4n, count: 9 }), "", "ada");
  known.jobChanged(job({ id: "j2", revision: 9n, count: 9 }), "", "ada");
  known.taskChanged(task(0, { revision: 1n, state: TaskState.DEAD }));
  known.taskChanged(task(0, { jobId: "j2", revision: 9n, state: TaskState.DEAD }));
  assert.deepEqual([known.job.count, known.healthy], [2, 1]);
});

test("a rollout is waited for until it is done, taken back or superseded", () => {
  const rolling = job({ rollout: { state: RolloutState.ROLLING, version: 3 } });
  const goal = goalOf(rolling);
  assert.deepEqual(goal, { goal: "rolled_out", version: 3 });
  assert.deepEqual(goalOf(job()), UP);
  const tasks = [healthy(0), healthy(1)];
  const of = (rollout: Job["rollout"] | object) => outcome(new KnownJob(job({ rollout }), tasks), goal);
  assert.equal(of({ state: RolloutState.ROLLING, version: 3 }), "underway");
  assert.equal(of({ state: RolloutState.ROLLING, version: 3, canariesHealthyMs: 1n }), "healthy");
  assert.equal(of({ state: RolloutState.DONE, version: 3 }), "healthy");
  assert.equal(of({ state: RolloutState.FAILED, version: 3, failure: "it crashed" }), "failed");
  assert.equal(of({ state: RolloutState.ROLLING, version: 4, reverts: 3 }), "underway");
  assert.equal(of({ state: RolloutState.DONE, version: 4, reverts: 3, failure: "it crashed" }), "failed");
  assert.equal(of({ state: RolloutState.ROLLING, version: 4 }), "failed");
});

test("what failed of a version is kept when it is taken back", () => {
  const rollout = { state: RolloutState.ROLLING, version: 2 };
  const known = new KnownJob(job({ rollout }), [healthy(0), healthy(1)]);
  const goal = goalOf(known.job);
  known.expect(goal);
  const exit = { reason: EndReason.EXITED, code: 7, incarnation: 3n };
  known.taskChanged(task(0, { revision: 2n, specVersion: 2, failures: 1, incarnation: 3n, exit }));
  assert.equal(known.isRolloutFailed, false);
  const back = { state: RolloutState.ROLLING, version: 3, reverts: 2, failure: "task 0 failed" };
  known.jobChanged(job({ revision: 2n, rollout: back }), "controller", "ada");
  assert.equal(known.isRolloutFailed, true);
  known.taskChanged(task(0, { revision: 3n, specVersion: 3, health: Health.HEALTHY, incarnation: 4n }));
  // The rows are listed again.
  const again = new KnownJob(job({ revision: 3n, rollout: { ...back, state: RolloutState.DONE } }), known.tasks);
  again.expect(goal, known);
  assert.equal(again.failedAttempt?.incarnation, 3n);
  const progress = again.progress(goal);
  assert.ok(progress.state === "over");
  assert.match(progress.why, /version 2 was taken back: task 0 failed; it exited with code 7/);
});

test("each further healthy task starts the progress deadline again, and a crash does not", () => {
  const known = new KnownJob(job({ count: 3 }), []);
  const timer = new ProgressTimer(100);
  const left = (now: number) => timer.leftMs(known, UP, 10, now);
  assert.deepEqual([left(100), left(109)], [10, 1]);
  known.taskChanged(healthy(0));
  assert.equal(left(109), 10);
  known.taskChanged(task(0, { revision: 2n, state: TaskState.PENDING }));
  assert.equal(left(112), 7);
  known.taskChanged(task(0, { revision: 3n, health: Health.HEALTHY }));
  assert.deepEqual([left(118), left(119)], [1, 0]);
});

test("no deadline counts for batch work, nor while other jobs are waited for", () => {
  const timer = new ProgressTimer(0);
  const batch = new KnownJob(job({ kind: JobKind.BATCH }), []);
  assert.equal(timer.leftMs(batch, UP, 10, 500), 10);
  const waiting = new KnownJob(job({ state: JobState.WAITING }), []);
  assert.equal(timer.leftMs(waiting, UP, 10, 900), 10);
});

test("the state of a job is one line", () => {
  const known = new KnownJob(job({ count: 4 }), [healthy(0), task(1), task(2, { state: TaskState.STARTING })]);
  assert.equal(known.text(UP), "ada/web: 1/4 healthy, 1 pending, 1 starting, 1 not healthy yet");
});
