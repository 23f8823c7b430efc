/** How far a job is while a caller waits for it, as a function of its rows. Pure. */

import { type Job, JobKind, JobState, RolloutState } from "../gen/borough/v1/job_pb.js";
import { EndReason, Health, StopReason, type Task, TaskState } from "../gen/borough/v1/task_pb.js";

/** What a wait is for. */
export type Goal =
  /** Every task of a service is healthy and no other runs any more, or batch work is over. */
  | { readonly goal: "up" }
  /** No task runs any more. */
  | { readonly goal: "over" }
  /** Every task has a healthy attempt of this version. */
  | { readonly goal: "rolled_out"; readonly version: number };

/** How a wait ended, unless by time. */
export type Outcome = "healthy" | "succeeded" | "failed" | "stopped";

/** The progress towards a goal. */
export type JobProgress =
  | { readonly state: "underway" }
  /** The goal is reached, or can no longer be; `why` is one sentence. */
  | { readonly state: "over"; readonly outcome: Outcome; readonly why: string };

const UNDERWAY: JobProgress = { state: "underway" };

function over(outcome: Outcome, why: string): JobProgress {
  return { state: "over", outcome, why };
}

/** The goal of a wait until a job is healthy: the end of its rollout, if one is under way. */
export function goalOf(job: Job): Goal {
  const { rollout, kind } = job;
  const isOpen = rollout?.state === RolloutState.ROLLING || rollout?.state === RolloutState.PAUSED;
  return rollout && isOpen && kind !== JobKind.BATCH
    ? { goal: "rolled_out", version: rollout.version }
    : { goal: "up" };
}

/** The rows of a job, as far as known. */
export class KnownJob {
  readonly #tasks = new Map<number, Task>();
  /** Another user, who has stopped the job. */
  stoppedBy: string | undefined;
  /** The version of a rollout that is waited for; 0: none. */
  #version = 0;
  /**
   * The task of that version that failed most often in a row, as it was then. Attempts of the version before take its
   * place when the version is taken back.
   */
  #failed: Task | undefined;

  constructor(
    public job: Job,
    tasks: Iterable<Task>,
  ) {
    for (const task of tasks) this.#tasks.set(task.index, task);
  }

  /** Says what the rows are read for, and keeps what earlier rows of the job have shown. */
  expect(goal: Goal, before?: KnownJob): void {
    this.#version = goal.goal === "rolled_out" ? goal.version : 0;
    if (before && before.job.id === this.job.id) {
      this.stoppedBy = before.stoppedBy;
      this.#failed = before.#failed;
    }
    for (const task of this.#tasks.values()) this.#visit(task);
  }

  /** The tasks, by index. */
  get tasks(): Task[] {
    return [...this.#tasks.values()].sort((one, other) => one.index - other.index);
  }

  /** Replaces an older row of this job. */
  jobChanged(job: Job, actor: string, ownUser: string): void {
    if (job.id !== this.job.id || job.revision <= this.job.revision) return;
    this.job = job;
    const isStopped = job.state === JobState.STOPPING || job.state === JobState.STOPPED;
    if (isStopped && actor.startsWith("user/") && actor !== `user/${ownUser}`) this.stoppedBy ??= actor.slice(5);
  }

  /** Replaces an older row of a task of this job. */
  taskChanged(task: Task): void {
    const known = this.#tasks.get(task.index);
    if (task.jobId !== this.job.id || (known && task.revision <= known.revision)) return;
    this.#tasks.set(task.index, task);
    this.#visit(task);
  }

  #visit(task: Task): void {
    const isItsEnd = task.exit !== undefined && task.exit.incarnation === task.incarnation;
    const isOfVersion = this.#version > 0 && task.specVersion === this.#version;
    if (isOfVersion && isItsEnd && task.failures > (this.#failed?.failures ?? 0)) this.#failed = task;
  }

  /** Whether the rollout that is waited for has failed, also while its version is taken back. */
  get isRolloutFailed(): boolean {
    const { rollout } = this.job;
    if (!rollout || this.#version === 0) return false;
    const hasFailed = rollout.version === this.#version && rollout.state === RolloutState.FAILED;
    return hasFailed || (rollout.reverts === this.#version && rollout.failure !== "");
  }

  /** The attempt that made the rollout fail, as it was then. */
  get failedAttempt(): Task | undefined {
    return this.#failed;
  }

  /** The tasks that the owner wants. */
  get wanted(): Task[] {
    const end = this.job.daemon ? countWithSurge(this.job) : this.job.count;
    // The index of a daemon job is kept when its node goes, and then no task is wanted there.
    const isGone = (task: Task) => task.state === TaskState.DEAD && task.stop === StopReason.NODE_LEFT;
    return this.tasks.filter((task) => task.index < end && !isGone(task));
  }

  /** The number of healthy tasks. */
  get healthy(): number {
    return this.wanted.filter(isHealthy).length;
  }

  /** Tasks that a smaller count no longer wants, and that have not ended. A lost one may never report its end. */
  get surplus(): number {
    const end = countWithSurge(this.job);
    const ended = [TaskState.DEAD, TaskState.PENDING, TaskState.LOST];
    return this.tasks.filter(({ index, state }) => index >= end && !ended.includes(state)).length;
  }

  /** The number of tasks without a node. Tasks that were never placed have no row. */
  get pending(): number {
    const { wanted } = this;
    const waiting = wanted.filter(({ state }) => state === TaskState.PENDING).length;
    return Math.max(this.job.count - wanted.length, 0) + waiting;
  }

  /** The task with the most failures in a row. */
  get failing(): Task | undefined {
    const failing = this.wanted.filter((task) => task.failures > 0 && !isHealthy(task));
    const worse = (one: Task, other: Task) => (other.failures > one.failures ? other : one);
    const [first, ...others] = failing;
    return first && others.reduce(worse, first);
  }

  /** The task that runs and is not healthy, of several the one that has run for longest. */
  get unhealthy(): Task | undefined {
    const runs = this.wanted.filter((task) => task.state === TaskState.RUNNING && !isHealthy(task));
    return runs.sort((one, other) => Number((one.startedMs ?? 0n) - (other.startedMs ?? 0n)))[0];
  }

  /** The progress towards a goal. */
  progress(goal: Goal): JobProgress {
    const { state, kind } = this.job;
    const name = `${this.job.user}/${this.job.name}`;
    if (state === JobState.SUCCEEDED) return over("succeeded", `${name} has succeeded`);
    if (state === JobState.FAILED) return over("failed", `${name} failed${this.#worst()}`);
    if (state === JobState.DEPENDENCY_FAILED) {
      return over("failed", `${name} never starts: a job in its \`after\` failed`);
    }
    if (state === JobState.STOPPED || (state === JobState.STOPPING && goal.goal !== "over")) {
      const by = this.stoppedBy === undefined ? "" : ` by ${this.stoppedBy}`;
      return over("stopped", goal.goal === "over" ? `${name} is stopped${by}` : `${name} was stopped meanwhile${by}`);
    }
    if (goal.goal === "over" || state !== JobState.RUNNING) return UNDERWAY;
    if (goal.goal === "rolled_out") return this.#rolloutProgress(goal.version, name);
    return kind === JobKind.BATCH ? UNDERWAY : this.#serviceProgress(name);
  }

  #serviceProgress(name: string): JobProgress {
    const dead = this.wanted.find(isDeadForGood);
    if (dead) return over("failed", `task ${name}/${dead.index} is dead${this.#worst()}`);
    const { daemon, count } = this.job;
    // The controller has given a task to every node that it can.
    const isServed = daemon === undefined || (daemon.looked && daemon.left === 0);
    const isReached = isServed && this.healthy >= count && this.surplus === 0;
    return isReached ? over("healthy", `${name}: ${this.healthy}/${count} healthy`) : UNDERWAY;
  }

  /** A version that is taken back is lost when every task is back. */
  #rolloutProgress(version: number, name: string): JobProgress {
    const { rollout } = this.job;
    if (!rollout) return over("healthy", `${name}: version ${version} is in force`);
    const { state, failure, by } = rollout;
    const isOver = state !== RolloutState.ROLLING && state !== RolloutState.PAUSED;
    if (rollout.version === version) {
      if (state === RolloutState.DONE) return this.#serviceProgress(name);
      if (state === RolloutState.FAILED) {
        return over("failed", `${name}: the rollout of version ${version} failed: ${failure}${this.#lastEnd()}`);
      }
      // A person may take any time to look at them.
      if (rollout.canariesHealthyMs > 0n)
        return over("healthy", `${name}: the canaries of version ${version} are healthy`);
      return UNDERWAY;
    }
    if (rollout.reverts === version) {
      if (!isOver) return UNDERWAY;
      if (state === RolloutState.FAILED) {
        return over(
          "failed",
          `${name}: version ${version} failed, and so did the way back: ${failure}${this.#lastEnd()}`,
        );
      }
      if (failure === "") return over("failed", `${name}: ${by} took version ${version} back`);
      return over("failed", `${name}: version ${version} was taken back: ${failure}${this.#lastEnd()}`);
    }
    if (rollout.version > version) {
      return over("failed", `${name}: version ${rollout.version} by ${by} superseded version ${version}`);
    }
    return UNDERWAY;
  }

  /** The state of the job in one line. */
  text(goal: Goal): string {
    const { user, name, count, kind, state, rollout } = this.job;
    const of = (states: readonly TaskState[]) => this.wanted.filter((task) => states.includes(task.state)).length;
    if (goal.goal === "over") {
      const left = this.tasks.filter((task) => task.state !== TaskState.DEAD && task.state !== TaskState.PENDING);
      return `${user}/${name}: ${left.length} tasks left`;
    }
    const isBatch = kind === JobKind.BATCH;
    const running = of([TaskState.RUNNING]);
    const done = this.wanted.filter((task) => task.state === TaskState.DEAD && task.exit?.code === 0).length;
    const parts = [isBatch ? `${done}/${count} done` : `${this.healthy}/${count} healthy`];
    if (goal.goal === "rolled_out") parts.push(`rolling out version ${goal.version}`);
    if (rollout?.state === RolloutState.PAUSED) parts.push("the rollout is paused");
    if (state === JobState.WAITING) parts.push("waits for the jobs in its `after`");
    const counts: [number, string][] = [
      [this.pending, "pending"],
      [of([TaskState.HELD, TaskState.ASSIGNED, TaskState.STARTING]), "starting"],
      [isBatch ? running : Math.max(running - this.healthy, 0), isBatch ? "running" : "not healthy yet"],
      [of([TaskState.STOPPING, TaskState.RELEASING]) + this.surplus, "stopping"],
      [of([TaskState.LOST]), "lost"],
    ];
    parts.push(...counts.filter(([number]) => number > 0).map(([number, word]) => `${number} ${word}`));
    const worst = this.#worst().replace(/^: /, "");
    return `${user}/${name}: ${worst ? [...parts, worst].join(", ") : parts.join(", ")}`;
  }

  /** How the attempt of the version ended that failed. Empty without one. */
  #lastEnd(): string {
    return this.#failed ? `; it ${endText(this.#failed)}` : "";
  }

  /** The task with the most failures in a row and how it ended: `: task 2 exited with code 7`. Empty without one. */
  #worst(): string {
    const task = this.failing;
    return task ? `: task ${task.index} ${endText(task)}` : "";
  }
}

/** Returns true if the agent has seen the task run for a while, and its check passes, if it has one. */
export function isHealthy(task: Task): boolean {
  return task.state === TaskState.RUNNING && task.health === Health.HEALTHY;
}

/** Returns true if the task does not start again. A task stopped by a shrink starts again when the job grows. */
function isDeadForGood(task: Task): boolean {
  const { state, stop, exit } = task;
  return state === TaskState.DEAD && stop === StopReason.UNSPECIFIED && exit?.reason !== EndReason.STOPPED;
}

/** The indexes that the tasks of a job may have: the count, and what surges beside it. */
function countWithSurge(job: Job): number {
  return job.daemon ? job.daemon.indexes : job.count + Math.max(job.surge, job.rollout?.surge ?? 0);
}

function endText({ exit, failures }: Task): string {
  if (exit === undefined) return `failed ${failures} times`;
  if (exit.message !== "") return `ended: ${exit.message}`;
  if (exit.signal !== undefined) return `was ended by signal ${exit.signal}`;
  return exit.code === undefined ? `failed ${failures} times` : `exited with code ${exit.code}`;
}

/** Measures the time since the last progress of a job. Times are of one monotonic clock. */
export class ProgressTimer {
  #healthy = 0;
  #surplus: number | undefined;

  constructor(private sinceMs: number) {}

  /**
   * The time until the deadline passes, 0 if it has passed. Each further healthy task, and each further end of a
   * surplus task, starts it again. It does not run while the job waits for other jobs, nor for batch work.
   */
  leftMs(known: KnownJob, goal: Goal, deadlineMs: number, nowMs: number): number {
    const { healthy, surplus, job } = known;
    const applies = goal.goal === "up" && job.kind !== JobKind.BATCH && job.state === JobState.RUNNING;
    const isFurther = healthy > this.#healthy || this.#surplus === undefined || surplus < this.#surplus;
    if (!applies || isFurther) {
      this.sinceMs = nowMs;
      this.#healthy = Math.max(this.#healthy, healthy);
      this.#surplus = surplus;
    }
    return Math.max(this.sinceMs + deadlineMs - nowMs, 0);
  }
}
