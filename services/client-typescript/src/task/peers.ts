/** The other tasks of the job of a task. */

import type { BoroughClient } from "../client.js";
import { cancellable } from "../iterate.js";
import { type Address, addressItems } from "../resolve.js";
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
  const isOther = (address: Address) => address.index !== index;
  return cancellable((end) => addressItems(names.watch(job, { signal: end }), port, isOther), signal);
}
