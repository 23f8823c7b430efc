/** Names: the endpoints of jobs, for load balancers and for callers. */

import type { CellContext, ListOptions } from "./context.js";
import { pageOf } from "./context.js";
import { invalid } from "./errors.js";
import type { Cursor } from "./gen/borough/v1/common_pb.js";
import { type Endpoint, NameService } from "./gen/borough/v1/name_pb.js";
import { cancellable, rowsOf } from "./iterate.js";
import { conditionsOf, type LabelSelector } from "./labels.js";
import { type JobName, jobOf } from "./refs.js";
import { type Address, addressItems } from "./resolve.js";
import { type EndpointItem, endpointItems } from "./watch/endpoints.js";

/** Which endpoints are listed. */
export interface EndpointFilter {
  /** Of this job. */
  readonly job?: JobName;
  /** Without `job`: of all jobs of this user; `"*"`: of every user. Default: the user of the client. */
  readonly user?: string;
  /** Only of jobs with labels that meet all of these conditions. */
  readonly labels?: LabelSelector;
}

/** What a watch may set for itself. */
export interface WatchOptions {
  /** Ends the watch. Its iterator ends without an error. */
  readonly signal?: AbortSignal | undefined;
  /** The cursor of an earlier item or answer. Only later changes are yielded, and no snapshot. */
  readonly resume?: Cursor | undefined;
}

/** The names of a cell. */
export class Names {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /** The endpoints that a filter chooses, over all pages. */
  list(filter: EndpointFilter = {}, options: ListOptions = {}): AsyncIterableIterator<Endpoint> {
    const owner = filter.user ?? this.context.user;
    const job = filter.job === undefined ? undefined : jobOf(filter.job, owner);
    const read = async (page: string, signal: AbortSignal) => {
      const answer = await this.context.calls.unary(
        NameService.method.listEndpoints,
        {
          context: this.context.read(),
          cell: this.context.cell,
          user: job?.user ?? (owner === "*" ? "" : owner),
          job: job?.name ?? "",
          selector: conditionsOf(filter.labels),
          page: pageOf(page, options),
        },
        { ...options, signal },
      );
      return { rows: answer.endpoints, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }

  /**
   * Follows the endpoints of a job: a snapshot first, then every change, in order, without gaps or repetition over
   * broken connections. A refusal throws. The iterator ends without an error when the caller leaves its loop or aborts.
   */
  watch(job: JobName, options: WatchOptions = {}): AsyncIterableIterator<EndpointItem> {
    const { user, name } = jobOf(job, this.context.user);
    return this.#watch(user, name, options);
  }

  /** As {@link watch}, of all jobs of a user. Default: the user of the client. */
  watchUser(user = this.context.user, options: WatchOptions = {}): AsyncIterableIterator<EndpointItem> {
    return this.#watch(user, "", options);
  }

  /**
   * Follows the addresses of a port of a job, for a load balancer: the whole list, each time it changes. An empty list
   * means that nothing serves, and never that nobody could tell.
   *
   * @param port - The name of the port. Default: the first one of each endpoint.
   */
  addresses(job: JobName, port?: string, options: WatchOptions = {}): AsyncIterableIterator<readonly Address[]> {
    if (options.resume) throw invalid("resume", "a cursor", "none: addresses begin with a whole list");
    const watch = (signal: AbortSignal) => this.watch(job, { signal });
    return cancellable((signal) => addressItems(watch(signal), port), options.signal);
  }

  #watch(user: string, job: string, { resume, signal }: WatchOptions): AsyncIterableIterator<EndpointItem> {
    const scope = { context: this.context.read(), cell: this.context.cell, user, job };
    return cancellable((end) => endpointItems(this.context.calls, scope, resume, end), signal);
  }
}
