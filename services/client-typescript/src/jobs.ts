/** Jobs: submit, plan, change, stop, list and wait for them. */

import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, type ListOptions, pageOf, present } from "./context.js";
import { requireWhole, UINT32_MAX } from "./errors.js";
import type { Cursor } from "./gen/borough/v1/common_pb.js";
import {
  type FieldChange,
  type Job,
  JobService,
  type JobSpec,
  type JobState,
  type JobVersion,
  OrderRolloutRequest_Order,
  type PlanJobResponse,
} from "./gen/borough/v1/job_pb.js";
import { rowsOf } from "./iterate.js";
import { defineJob } from "./job/build.js";
import type { JobOptions } from "./job/options.js";
import { JobWait, type WaitOptions, type WaitResult } from "./job/wait.js";
import { conditionsOf, type LabelChange, type LabelSelector, labelsOf } from "./labels.js";
import { type JobName, jobOf } from "./refs.js";

/** The job that a caller has seen, and changes. */
export interface ExpectedJob {
  /** Its id. A later job of the name is then refused. */
  readonly id?: string;
  /** Its revision. A job that has changed since is then refused. */
  readonly revision?: bigint;
}

/** What became of a submission. */
export interface SubmittedJob {
  /** The job with its new revision. */
  readonly job: Job;
  /** Whether the submission changed the job. */
  readonly changed: boolean;
  /** What it changed. */
  readonly diff: readonly FieldChange[];
  /** Why the admitted job waits, such as for a scheduler that nobody runs. */
  readonly warnings: readonly string[];
  /** A watch from here misses no effect of the submission. */
  readonly cursor: Cursor | undefined;
}

/** A job with its spec. */
export interface JobDetail {
  /** The job. */
  readonly job: Job;
  /** Its rendered spec. */
  readonly spec: JobSpec;
  /** A watch from here misses nothing. */
  readonly cursor: Cursor | undefined;
}

/** Which jobs are listed. */
export interface JobFilter {
  /** The user that owns them; `"*"`: every user. Default: the user of the client. */
  readonly user?: string;
  /** Also those that are over. */
  readonly ended?: boolean;
  /** Only those in one of these states. */
  readonly states?: readonly JobState[];
  /** Only those with labels that meet all of these conditions. */
  readonly labels?: LabelSelector;
  /** Also sums what their tasks are charged for and use. */
  readonly usage?: boolean;
}

/** An order to the rollout of a job. */
export type RolloutOrder =
  /** Replace no further attempts. */
  | "pause"
  /** Go on. */
  | "resume"
  /** Go back to an earlier version. */
  | "undo"
  /** Replace the attempts of the job's own tasks too, now that the canaries are healthy. */
  | "promote";

const ORDERS: Record<RolloutOrder, OrderRolloutRequest_Order> = {
  pause: OrderRolloutRequest_Order.PAUSE,
  resume: OrderRolloutRequest_Order.RESUME,
  undo: OrderRolloutRequest_Order.UNDO,
  promote: OrderRolloutRequest_Order.PROMOTE,
};

/** The jobs of a cell. */
export class Jobs {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /**
   * Submits a new job, or changes the running one of the same name. Returns when the change is committed; {@link wait}
   * waits for its effect.
   *
   * @param job - What {@link defineJob} takes, or what it returned.
   */
  async submit(
    job: JobOptions | JobSpec,
    options: ChangeOptions & { readonly expected?: ExpectedJob } = {},
  ): Promise<SubmittedJob> {
    const { id = "", revision = 0n } = options.expected ?? {};
    const answer = await this.context.calls.unary(
      JobService.method.submitJob,
      {
        context: this.context.change(options),
        cell: this.context.cell,
        spec: this.#spec(job),
        expectedJob: id,
        expectedRevision: revision,
      },
      options,
    );
    const { changed, diff, warnings, cursor } = answer;
    return { job: present("SubmitJob", "job", answer.job), changed, diff, warnings, cursor };
  }

  /** Submits a job and waits for it, as `borough job run` does. */
  async run(job: JobOptions | JobSpec, options: ChangeOptions & WaitOptions = {}): Promise<WaitResult> {
    const { job: submitted } = await this.submit(job, options);
    const { user, name } = submitted;
    return new JobWait(this.context, { user, name }, options, submitted).result();
  }

  /** What submitting a job would change, and where its tasks would run. */
  async plan(job: JobOptions | JobSpec, options: CallOptions = {}): Promise<PlanJobResponse> {
    const message = { context: this.context.read(), cell: this.context.cell, spec: this.#spec(job) };
    return this.context.calls.unary(JobService.method.planJob, message, options);
  }

  /** Changes the number of tasks. With `expected`, a later job of the name is refused. */
  async scale(
    job: JobName,
    count: number,
    options: ChangeOptions & { readonly expected?: Pick<ExpectedJob, "id"> } = {},
  ): Promise<Job> {
    requireWhole("count", count, 0, UINT32_MAX);
    const message = { ...this.#change(job, options), count, expectedJob: options.expected?.id ?? "" };
    const answer = await this.context.calls.unary(JobService.method.scaleJob, message, options);
    return present("ScaleJob", "job", answer.job);
  }

  /**
   * Pauses, resumes, promotes or takes back the rollout of a job.
   *
   * @param options - `version`: of `undo`, the version to go back to. Default: the newest that differs.
   */
  async rollout(
    job: JobName,
    order: RolloutOrder,
    options: ChangeOptions & { readonly version?: number } = {},
  ): Promise<Job> {
    const { version = 0 } = options;
    requireWhole("version", version, 0, UINT32_MAX);
    const message = { ...this.#change(job, options), order: ORDERS[order], version };
    const answer = await this.context.calls.unary(JobService.method.orderRollout, message, options);
    return present("OrderRollout", "job", answer.job);
  }

  /** Stops a job: withdraws its endpoints and ends its tasks. Returns when the stop is committed, before they ended. */
  async stop(
    job: JobName,
    options: ChangeOptions & { readonly expected?: Pick<ExpectedJob, "id"> } = {},
  ): Promise<Job> {
    const message = { ...this.#change(job, options), expectedJob: options.expected?.id ?? "" };
    const answer = await this.context.calls.unary(JobService.method.stopJob, message, options);
    return present("StopJob", "job", answer.job);
  }

  /** Forgets every ended job of a name: rows, specs and history. Returns their number. */
  async purge(job: JobName, options: ChangeOptions = {}): Promise<number> {
    const answer = await this.context.calls.unary(JobService.method.purgeJob, this.#change(job, options), options);
    return answer.jobs;
  }

  /** Sets and removes labels. No task restarts. */
  async label(job: JobName, change: LabelChange, options: ChangeOptions = {}): Promise<Job> {
    const message = { ...this.#change(job, options), ...labelsOf(change) };
    const answer = await this.context.calls.unary(JobService.method.labelJob, message, options);
    return present("LabelJob", "job", answer.job);
  }

  /** One job with its spec. */
  async get(job: JobName, options: CallOptions = {}): Promise<JobDetail> {
    const {
      job: found,
      spec,
      cursor,
    } = await this.context.calls.unary(JobService.method.getJob, this.#read(job), options);
    return { job: present("GetJob", "job", found), spec: present("GetJob", "spec", spec), cursor };
  }

  /** The jobs that a filter chooses, over all pages. */
  list(filter: JobFilter = {}, options: ListOptions = {}): AsyncIterableIterator<Job> {
    const { user = this.context.user, ended = false, states = [], usage = false } = filter;
    const read = async (page: string, signal: AbortSignal) => {
      const answer = await this.context.calls.unary(
        JobService.method.listJobs,
        {
          context: this.context.read(),
          cell: this.context.cell,
          user: user === "*" ? "" : user,
          ended,
          states: [...states],
          selector: conditionsOf(filter.labels),
          usage,
          page: pageOf(page, options),
        },
        { ...options, signal },
      );
      return { rows: answer.jobs, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }

  /** Every job that had this name, with the versions of its spec, newest first. */
  async history(job: JobName, options: CallOptions = {}): Promise<JobVersion[]> {
    const answer = await this.context.calls.unary(JobService.method.getJobHistory, this.#read(job), options);
    return answer.versions;
  }

  /**
   * Waits for a job as `borough job run` does: until every task of a service is healthy, a rollout is done, or batch
   * work is over; or until that can no longer be reached. The job itself goes on in any case.
   */
  async wait(job: JobName, options: WaitOptions = {}): Promise<WaitResult> {
    return new JobWait(this.context, jobOf(job, this.context.user), options).result();
  }

  #spec(job: JobOptions | JobSpec): JobSpec {
    const spec = "$typeName" in job ? job : defineJob(job);
    return spec.user === "" ? { ...spec, user: this.context.user } : spec;
  }

  #change(job: JobName, options: ChangeOptions) {
    const context = this.context.change(options);
    return { context, cell: this.context.cell, ...jobOf(job, this.context.user) };
  }

  #read(job: JobName) {
    return { context: this.context.read(), cell: this.context.cell, ...jobOf(job, this.context.user) };
  }
}
