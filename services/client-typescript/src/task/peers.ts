/** The other tasks of the job of a task. */

import type { BoroughClient } from "../client.js";
import { cancellable } from "../iterate.js";
import type { Address } from "../resolve.js";
import { type TaskIdentity, thisTask } from "./identity.js";

/** How peers are followed. */
export interface PeerOptions {
  /** The name of the port. Default: the first one of each endpoint. */
  readonly port?: string;
  /** Ends the iterator, without an error. */
  readonly signal?: AbortSignal;
  /** Whose peers. Default: those of this task. */
  readonly task?: TaskIdentity;
}

/**
 * Follows the addresses of the other tasks of this job: the whole list, each time it changes.
 *
 * @param client - Of any user that may read the cell. The agent gives no token to a task.
 */
export function peers(client: BoroughClient, options: PeerOptions = {}): AsyncIterableIterator<readonly Address[]> {
  const { port, signal, task = thisTask() } = options;
  const { cell, user, job, index } = task;
  const { names } = client.with({ cell, user });
  return cancellable(async function* (end) {
    for await (const addresses of names.addresses(job, port, { signal: end })) {
      yield addresses.filter((address) => address.index !== index);
    }
  }, signal);
}
