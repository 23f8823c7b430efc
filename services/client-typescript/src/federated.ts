/** Federated jobs: jobs whose tasks a federation divides among its member cells. */

import type { MessageInitShape } from "@bufbuild/protobuf";

import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, type ListOptions, pageOf, present } from "./context.js";
import { requireWhole, UINT32_MAX } from "./errors.js";
import {
  type FederatedJob,
  type FederatedJobVersion,
  FederatedService,
  OrderFederatedReleaseRequest_Order,
  type PlanFederatedJobRequestSchema,
  RebalancedTasks as Rebalanced,
} from "./gen/borough/v1/federated_pb.js";
import { rowsOf } from "./iterate.js";
import { type JobFile, jobFileOf, jobFileRead } from "./job-file.js";
import { type JobName, jobOf } from "./refs.js";

/** The gateway waits up to 12 seconds for a federation process. */
const PLAN_DEADLINE_MS = 30_000;

/** What became of the submission of a federated job. */
export interface SubmittedFederatedJob {
  /** The job as it is wanted now. */
  readonly job: FederatedJob;
  /** Whether the submission changed the job. */
  readonly changed: boolean;
}

/** What would become of a federated job. */
export interface FederatedPlan {
  /** The job as it is now; absent: there is none that runs. */
  readonly before: FederatedJob | undefined;
  /** The job as it would be once its tasks are divided. */
  readonly after: FederatedJob;
  /** Whether the submission would change the job. */
  readonly changed: boolean;
}

/** A federated job with its job file. */
export interface FederatedJobDetail {
  /** The job with its parts. */
  readonly job: FederatedJob;
  /** Its job file, which {@link FederatedJobs.run} takes again, changed or not. */
  readonly jobFile: JobFile;
}

/** Which federated jobs are listed. */
export interface FederatedJobFilter {
  /** The user that owns them; `"*"`: every user. Default: the user of the client. */
  readonly user?: string;
  /** Also those that are stopped. */
  readonly stopped?: boolean;
  /** Only those with tasks in this member cell, each with its part there. */
  readonly member?: string;
}

/** An order to the release of the newest version of a federated job. */
export type ReleaseOrder =
  /** No further cell gets the version. */
  | "pause"
  /** Go on. */
  | "resume"
  /** The stage after the one that is under way may begin. */
  | "approve"
  /** All cells go back to the last proven version. */
  | "undo";

/** Which tasks a rebalance may move. */
export type RebalancedTasks =
  /** All in cells that take new ones. */
  | "all"
  /** Those that do not run, in cells without room for them. */
  | "stuck";

const REBALANCED: Record<RebalancedTasks, Rebalanced> = { all: Rebalanced.ALL, stuck: Rebalanced.STUCK };

const ORDERS: Record<ReleaseOrder, OrderFederatedReleaseRequest_Order> = {
  pause: OrderFederatedReleaseRequest_Order.PAUSE,
  resume: OrderFederatedReleaseRequest_Order.RESUME,
  approve: OrderFederatedReleaseRequest_Order.APPROVE,
  undo: OrderFederatedReleaseRequest_Order.REVERT,
};

/**
 * The federated jobs of a federation. The cell of the client is its home. A federation process carries out what is asked
 * for, so an answer says what is wanted, and {@link get} what has become of it.
 */
export class FederatedJobs {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /**
   * Adds a federated job, or changes the one that has the name. The same again changes nothing.
   *
   * @param file - The job file with its `federation` part: an object, or its text as JSON.
   * @param options - `expectedRevision`: another revision of the job is then refused.
   */
  async run(
    file: JobFile | string,
    options: ChangeOptions & { readonly expectedRevision?: bigint } = {},
  ): Promise<SubmittedFederatedJob> {
    const message = {
      context: this.context.change(options),
      cell: this.context.cell,
      ...jobFileRead(file, this.context.user),
      expectedRevision: options.expectedRevision ?? 0n,
    };
    const answer = await this.context.calls.unary(FederatedService.method.runFederatedJob, message, options);
    return { job: jobIn("RunFederatedJob", answer), changed: answer.changed };
  }

  /**
   * What would become of a job if {@link run} ran it now. Nothing is changed. A federation process asks the cells for
   * that. If none answers within 12 seconds, the call is refused with the reason `FEDERATION_SILENT`.
   */
  async plan(file: JobFile | string, options: CallOptions = {}): Promise<FederatedPlan> {
    const message = {
      context: this.context.read(),
      cell: this.context.cell,
      ...jobFileRead(file, this.context.user),
    };
    return await this.#plan(message, options);
  }

  /** What would become of a job if {@link rebalance} rebalanced it now. Nothing is changed. */
  async planRebalance(job: JobName, which: RebalancedTasks, options: CallOptions = {}): Promise<FederatedPlan> {
    return await this.#plan({ ...this.#read(job), rebalance: REBALANCED[which] }, options);
  }

  async #plan(
    message: MessageInitShape<typeof PlanFederatedJobRequestSchema>,
    options: CallOptions,
  ): Promise<FederatedPlan> {
    const slow = { deadlineMs: PLAN_DEADLINE_MS, ...options };
    const answer = await this.context.calls.unary(FederatedService.method.planFederatedJob, message, slow);
    const { before, after, changed } = answer;
    return { before, after: present("PlanFederatedJob", "after", after), changed };
  }

  /** The jobs that a filter chooses, by user and name, without their parts, over all pages. */
  list(filter: FederatedJobFilter = {}, options: ListOptions = {}): AsyncIterableIterator<FederatedJob> {
    const { user = this.context.user, stopped = false, member = "" } = filter;
    const read = async (page: string, signal: AbortSignal) => {
      const answer = await this.context.calls.unary(
        FederatedService.method.listFederatedJobs,
        {
          context: this.context.read(),
          cell: this.context.cell,
          user: user === "*" ? "" : user,
          stopped,
          member,
          page: pageOf(page, options),
        },
        { ...options, signal },
      );
      return { rows: answer.jobs, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }

  /** One job with its parts and its job file. */
  async get(job: JobName, options: CallOptions = {}): Promise<FederatedJobDetail> {
    const answer = await this.context.calls.unary(FederatedService.method.getFederatedJob, this.#read(job), options);
    const jobFile = present("GetFederatedJob", "jobFile", answer.jobFile || undefined);
    return { job: jobIn("GetFederatedJob", answer), jobFile: jobFileOf(jobFile) };
  }

  /** Changes the number of tasks in all cells together. */
  async scale(job: JobName, count: number, options: ChangeOptions = {}): Promise<FederatedJob> {
    requireWhole("count", count, 0, UINT32_MAX);
    const message = { ...this.#change(job, options), count };
    const answer = await this.context.calls.unary(FederatedService.method.scaleFederatedJob, message, options);
    return jobIn("ScaleFederatedJob", answer);
  }

  /**
   * Has its tasks divided among the cells again, although nothing has changed.
   *
   * @param options - `expectedRevision`: another revision of the job is then refused.
   */
  async rebalance(
    job: JobName,
    which: RebalancedTasks,
    options: ChangeOptions & { readonly expectedRevision?: bigint } = {},
  ): Promise<FederatedJob> {
    const message = {
      ...this.#change(job, options),
      which: REBALANCED[which],
      expectedRevision: options.expectedRevision ?? 0n,
    };
    const answer = await this.context.calls.unary(FederatedService.method.rebalanceFederatedJob, message, options);
    return jobIn("RebalanceFederatedJob", answer);
  }

  /** Stops the parts in all cells. A cell that is silent stops its part when it is back. */
  async stop(job: JobName, options: ChangeOptions = {}): Promise<FederatedJob> {
    const message = this.#change(job, options);
    const answer = await this.context.calls.unary(FederatedService.method.stopFederatedJob, message, options);
    return jobIn("StopFederatedJob", answer);
  }

  /**
   * Pauses, resumes, approves or takes back the release of the newest version.
   *
   * @param options - `stage`: of `approve`, the stage that is under way, from 0, as the release of the job says.
   */
  async release(
    job: JobName,
    order: ReleaseOrder,
    options: ChangeOptions & { readonly stage?: number } = {},
  ): Promise<FederatedJob> {
    // Who approves says which stage, so that a late approval does not count for the next one.
    const stage = order === "approve" ? options.stage : 0;
    requireWhole("stage", stage, 0, UINT32_MAX);
    const message = { ...this.#change(job, options), order: ORDERS[order], stage: stage ?? 0 };
    const answer = await this.context.calls.unary(FederatedService.method.orderFederatedRelease, message, options);
    return jobIn("OrderFederatedRelease", answer);
  }

  /**
   * Forgets a job. Its parts go on in their cells as jobs of their own.
   *
   * @returns The job as it was; `undefined` if an earlier call with this `requestId` has forgotten it.
   */
  async forget(job: JobName, options: ChangeOptions = {}): Promise<FederatedJob | undefined> {
    const message = this.#change(job, options);
    const answer = await this.context.calls.unary(FederatedService.method.forgetFederatedJob, message, options);
    return answer.job;
  }

  /** The versions of a job that are kept, newest first; at most 20. */
  async history(job: JobName, options: CallOptions = {}): Promise<FederatedJobVersion[]> {
    const method = FederatedService.method.getFederatedJobHistory;
    return (await this.context.calls.unary(method, this.#read(job), options)).versions;
  }

  #change(job: JobName, options: ChangeOptions) {
    const context = this.context.change(options);
    return { context, cell: this.context.cell, ...jobOf(job, this.context.user) };
  }

  #read(job: JobName) {
    return { context: this.context.read(), cell: this.context.cell, ...jobOf(job, this.context.user) };
  }
}

function jobIn(method: string, answer: { readonly job?: FederatedJob | undefined }): FederatedJob {
  return present(method, "job", answer.job);
}
