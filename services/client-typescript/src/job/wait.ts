/** Waits for a job: lists its rows once, then watches them, and says what delays it. */

import { create } from "@bufbuild/protobuf";
import { type CellContext, pageOf, present } from "../context.js";
import { CancelledError, invalid } from "../errors.js";
import { type Job, JobKind, JobService, type JobSpec } from "../gen/borough/v1/job_pb.js";
import { type Endpoint, NameService } from "../gen/borough/v1/name_pb.js";
import { type Explanation, ReadLogsRequestSchema, type Task, TaskService } from "../gen/borough/v1/task_pb.js";
import { cancellable, listOf, rowsOf } from "../iterate.js";
import { LogFollower } from "../log/follower.js";
import { LATE, type LinkedSignal, linked, sleep, within } from "../time.js";
import { type CellItem, cellItems } from "../watch/cell.js";
import { durationMs } from "./amounts.js";
import type { Duration } from "./options.js";
import { type Goal, goalOf, type JobProgress, KnownJob, type Outcome, ProgressTimer } from "./progress.js";

/** After so long without a change, tasks that wait are explained, in milliseconds. */
const EXPLAIN_AFTER_MS = 1_500;
/** How long a wait lasts without progress unless the job says it: ten minutes, as Kubernetes has it. */
const PROGRESS_DEADLINE_MS = 600_000;
/** Interval and number of reads of endpoints after every task is healthy: another transaction publishes them. */
const ENDPOINT_INTERVAL_MS = 50;
const ENDPOINT_READS = 40;
/** Lines of the output of a failing task, and how long the result waits for them. */
const OUTPUT_LINES = 10;
const OUTPUT_WAIT_MS = 5_000;

/** What a wait may set for itself. */
export interface WaitOptions {
  /**
   * `healthy`: as `borough job run`. `ended`: until no task runs any more. Default: `healthy`, which for batch work is
   * its end.
   */
  readonly for?: "healthy" | "ended";
  /** The longest wait. Default: as long as the job can reach its goal and makes progress. */
  readonly timeout?: Duration;
  /** The longest wait while no further task becomes healthy. Default: that of the job, or 10m. */
  readonly progressDeadline?: Duration;
  /** Is called for each change of the state, and with what delays the job. */
  readonly onProgress?: (progress: WaitProgress) => void;
  /** Ends the wait with a {@link CancelledError}. The job goes on. */
  readonly signal?: AbortSignal | undefined;
}

/** How far a job is. */
export interface WaitProgress {
  /** One line for people. */
  readonly text: string;
  /** The job. */
  readonly job: Job;
  /** Healthy tasks. */
  readonly healthy: number;
  /** Tasks without a node. */
  readonly pending: number;
  /** Why tasks are not placed, or do not run as they should; empty while nothing is known. */
  readonly explanations: readonly Explanation[];
}

/** How a wait ended. */
export interface WaitResult {
  /**
   * `healthy`: every task of a service is healthy. `succeeded`, `failed`, `stopped`: the job is over, or can no longer
   * become healthy. `timeout`: the time was over, or no further task became healthy for the progress deadline.
   */
  readonly outcome: Outcome | "timeout";
  /** One sentence for people. */
  readonly why: string;
  /** The job as it was last seen. */
  readonly job: Job;
  /** Its tasks as they were last seen, by index. */
  readonly tasks: readonly Task[];
  /** Of a healthy service: its endpoints. */
  readonly endpoints: readonly Endpoint[];
  /** Unless the outcome is good: why tasks are not placed, or fail. */
  readonly explanations: readonly Explanation[];
  /** Unless the outcome is good: the last lines of the task that fails most. */
  readonly output: string;
}

/** The rows of a job, and the watch that goes on from them. */
interface JobRows {
  readonly known: KnownJob;
  readonly spec: JobSpec | undefined;
  readonly items: AsyncIterableIterator<CellItem>;
  next: Promise<IteratorResult<CellItem>>;
}

/** One wait. */
export class JobWait {
  readonly #end = new AbortController();
  readonly #link: LinkedSignal;
  readonly #timer = new ProgressTimer(performance.now());
  #explanations: readonly Explanation[] = [];
  #reported = "";
  /** What the attempt that made a rollout fail has written. */
  #failedOutput: string | undefined;
  /** That no gateway answers. */
  #absent = "";

  constructor(
    private readonly context: CellContext,
    private readonly name: { readonly user: string; readonly name: string },
    private readonly options: WaitOptions,
    /** The job as its submission left it: its rollout may be over, or taken back, before the wait begins. */
    private readonly submitted?: Job,
  ) {
    this.#link = linked(options.signal, this.#end.signal);
  }

  /** Waits, and says how that ended. */
  async result(): Promise<WaitResult> {
    const timeoutMs = limitOf("timeout", this.options.timeout) ?? Number.POSITIVE_INFINITY;
    const endsAt = performance.now() + timeoutMs;
    try {
      if (this.#signal.aborted) throw new CancelledError(this.#signal.reason);
      return await this.#until(endsAt);
    } catch (thrown) {
      if (this.options.signal?.aborted) throw new CancelledError(this.options.signal.reason);
      throw thrown;
    } finally {
      this.#end.abort();
      this.#link.free();
    }
  }

  get #signal(): AbortSignal {
    return this.#link.signal;
  }

  async #until(endsAt: number): Promise<WaitResult> {
    let rows = await this.#open();
    const goal: Goal = this.options.for === "ended" ? { goal: "over" } : goalOf(this.submitted ?? rows.known.job);
    rows.known.expect(goal);
    for (;;) {
      const { known } = rows;
      // A later attempt takes its place soon.
      if (known.isRolloutFailed) this.#failedOutput ??= await this.#output(known.failedAttempt);
      const progress = known.progress(goal);
      if (progress.state === "over") return this.#over(known, rows.spec, progress);
      this.#report(known, goal);
      const now = performance.now();
      const left = this.#timer.leftMs(known, goal, this.#progressDeadlineMs(rows.spec), now);
      if (left === 0) {
        const waited = this.#progressDeadlineMs(rows.spec) / 1000;
        return this.#late(known, `${known.text(goal)}; no progress for ${waited} s; the job goes on`);
      }
      if (now >= endsAt)
        return this.#late(known, `${known.text(goal)}; the wait has ended${this.#absent}; the job goes on`);
      const item = await within(rows.next, Math.min(EXPLAIN_AFTER_MS, left, endsAt - now));
      if (item === LATE) await this.#explain(known, goal, endsAt - now);
      else if (this.#take(known, item)) rows.next = rows.items.next();
      else {
        rows = await this.#open();
        rows.known.expect(goal, known);
      }
    }
  }

  /** Records an item. Returns false if the rows must be listed again. */
  #take(known: KnownJob, { done, value }: IteratorResult<CellItem>): boolean {
    if (this.#signal.aborted) throw new CancelledError(this.#signal.reason);
    if (done || value.type === "resync") return false;
    this.#absent = value.type === "absent" ? `; ${value.error.message}` : "";
    if (value.type !== "change") return true;
    const { change, actor } = value;
    if (change.what === "job") known.jobChanged(change.job, actor, this.context.user);
    if (change.what === "task") {
      known.taskChanged(change.task);
      this.#explanations = [];
    }
    return true;
  }

  /** Lists the rows of the job, and watches them from there. */
  async #open(): Promise<JobRows> {
    const { calls, cell } = this.context;
    const { user, name } = this.name;
    const scope = { context: this.context.read(), cell };
    const signal = this.#signal;
    const answer = await calls.unary(JobService.method.getJob, { ...scope, user, name }, { signal });
    const cursor = present("GetJob", "cursor", answer.cursor);
    const known = new KnownJob(present("GetJob", "job", answer.job), await this.#tasks());
    const filter = { user, job: name, jobs: true, tasks: true };
    const items = cancellable((end) => cellItems(calls, scope, filter, cursor, end), signal);
    const next = items.next();
    // The wait may end before it looks.
    next.catch(() => {});
    return { known, spec: answer.spec, items, next };
  }

  #tasks(): Promise<Task[]> {
    const { calls, cell } = this.context;
    const scope = { context: this.context.read(), cell, user: this.name.user, job: this.name.name };
    const read = async (page: string, signal: AbortSignal) => {
      const message = { ...scope, page: pageOf(page, {}) };
      const answer = await calls.unary(TaskService.method.listTasks, message, { signal });
      return { rows: answer.tasks, nextPage: answer.nextPage };
    };
    return listOf(rowsOf(read, this.#signal));
  }

  #progressDeadlineMs(spec: JobSpec | undefined): number {
    const ofJob = spec?.progressDeadlineMs;
    const given = limitOf("progressDeadline", this.options.progressDeadline);
    return given ?? (ofJob === undefined ? PROGRESS_DEADLINE_MS : Number(ofJob));
  }

  #report(known: KnownJob, goal: Goal): void {
    const text = known.text(goal) + this.#absent;
    const shown = [text, ...this.#explanations.map(({ headline, summary }) => headline || summary)].join("\n");
    if (shown === this.#reported) return;
    this.#reported = shown;
    const { job, healthy, pending } = known;
    this.options.onProgress?.({ text, job, healthy, pending, explanations: this.#explanations });
  }

  /** Asks why tasks wait. If the explanation fails, the wait goes on without it. */
  async #explain(known: KnownJob, goal: Goal, leftMs: number): Promise<void> {
    const waits = known.job.kind !== JobKind.BATCH && known.healthy < known.job.count;
    if (goal.goal === "over" || (known.pending === 0 && !waits)) return;
    this.#explanations = await this.#explanationsNow(this.#signal, Math.min(leftMs, OUTPUT_WAIT_MS));
  }

  async #explanationsNow(
    signal: AbortSignal | undefined,
    deadlineMs = OUTPUT_WAIT_MS,
  ): Promise<readonly Explanation[]> {
    const { calls, cell } = this.context;
    const message = { context: this.context.read(), cell, user: this.name.user, job: this.name.name };
    const asked = calls.unary(TaskService.method.explainTask, message, { signal, deadlineMs });
    return asked.then(
      ({ explanations }) => explanations,
      () => [],
    );
  }

  async #over(known: KnownJob, spec: JobSpec | undefined, progress: JobProgress & { state: "over" }) {
    const { outcome, why } = progress;
    if (outcome === "failed") return this.#result(known, outcome, why);
    const isServed = outcome === "healthy" && known.job.kind === JobKind.SERVICE && spec?.task?.ports.length !== 0;
    const endpoints = isServed ? await this.#endpoints(known.job.count) : [];
    return { outcome, why, job: known.job, tasks: known.tasks, endpoints, explanations: [], output: "" };
  }

  #late(known: KnownJob, why: string): Promise<WaitResult> {
    return this.#result(known, "timeout", why);
  }

  async #result(known: KnownJob, outcome: WaitResult["outcome"], why: string): Promise<WaitResult> {
    const [explanations, output] = await Promise.all([
      this.#explanations.length > 0 ? this.#explanations : this.#explanationsNow(this.options.signal),
      this.#failedOutput ?? this.#output(known.failing ?? known.unhealthy),
    ]);
    return { outcome, why, job: known.job, tasks: known.tasks, endpoints: [], explanations, output };
  }

  async #endpoints(wanted: number): Promise<Endpoint[]> {
    const { calls, cell } = this.context;
    const message = { context: this.context.read(), cell, user: this.name.user, job: this.name.name };
    for (let reads = 1; ; reads += 1) {
      const answer = await calls.unary(NameService.method.listEndpoints, message, { signal: this.#signal });
      if (answer.endpoints.length >= wanted || reads === ENDPOINT_READS) return answer.endpoints;
      await sleep(ENDPOINT_INTERVAL_MS, this.#signal);
    }
  }

  /** The last lines of the attempt of a task that failed last. A later attempt may have written nothing yet. */
  async #output(task: Task | undefined): Promise<string> {
    if (!task) return "";
    const incarnation = task.failures > 0 ? (task.exit?.incarnation ?? task.incarnation) : task.incarnation;
    const request = create(ReadLogsRequestSchema, {
      context: this.context.read(),
      cell: this.context.cell,
      user: task.user,
      job: task.job,
      index: task.index,
      tailLines: OUTPUT_LINES,
      incarnation,
      // A helper that failed has kept the command from its start.
      helper: task.failures > 0 ? (task.exit?.helper ?? "") : "",
    });
    const end = AbortSignal.timeout(OUTPUT_WAIT_MS);
    const decoder = new TextDecoder();
    let text = "";
    try {
      for await (const item of new LogFollower(this.context.calls, request).items(end)) {
        if (item.type === "output") text += decoder.decode(item.data, { stream: true });
      }
    } catch {
      // What was read says enough, or nothing can be read of an attempt that never began.
    }
    return text;
  }
}

function limitOf(field: string, given: Duration | undefined): number | undefined {
  if (given === undefined || given === Number.POSITIVE_INFINITY) return undefined;
  return durationMs(given) ?? refuseLimit(field, given);
}

function refuseLimit(field: string, given: Duration): never {
  throw invalid(field, given, "milliseconds, or a text such as 30s or 5m");
}
