/**
 * A resolver with which `@grpc/grpc-js` balances over the tasks of a job: `borough:///JOB.USER.CELL?port=NAME`. It uses
 * the experimental API of `@grpc/grpc-js` 1.14, which another version may change.
 *
 * @packageDocumentation
 */

import { type ChannelOptions, experimental, status } from "@grpc/grpc-js";
import type { BoroughClient } from "./client.js";
import { invalid } from "./errors.js";
import { isName } from "./refs.js";
import type { Address } from "./resolve.js";

export { BoroughError, type ErrorKind, InvalidError, type InvalidField } from "./errors.js";

/** A job and a port, as a target of gRPC names them. */
export interface BoroughTarget {
  /** The name of the job. */
  readonly job: string;
  /** The user that owns it. */
  readonly user: string;
  /** The cell that runs it. */
  readonly cell: string;
  /** The name of the port. Absent: the first one of each endpoint. */
  readonly port?: string;
}

const ACCEPTED = "borough:///JOB.USER.CELL or borough:///JOB.USER.CELL?port=NAME";
/** Each call goes to the next task. */
const SERVICE_CONFIG = { loadBalancingConfig: [{ round_robin: {} }], methodConfig: [] };

/**
 * Reads the path of a target, such as `web.ada.alpha?port=grpc`.
 *
 * @throws {@link InvalidError}
 */
export function parseTarget(path: string): BoroughTarget {
  const [, name = "", port] = /^\/?([^?]*)(?:\?port=([^?]*))?$/.exec(path) ?? [];
  const [job, user, cell, ...rest] = name.split(".");
  const isFine = (part: string | undefined): part is string => part !== undefined && isName(part);
  if (!isFine(job) || !isFine(user) || !isFine(cell) || rest.length > 0 || (port !== undefined && !isFine(port))) {
    throw invalid("target", path, ACCEPTED);
  }
  return { job, user, cell, ...(port !== undefined && { port }) };
}

/**
 * Lets every later channel of `@grpc/grpc-js` resolve targets of the scheme `borough` with this client. Channels follow
 * the endpoints of the job, and send each call to the next healthy task.
 */
export function registerResolver(client: BoroughClient): void {
  experimental.registerResolver(
    "borough",
    class extends BoroughResolver {
      constructor(target: experimental.GrpcUri, listener: experimental.ResolverListener, _options: ChannelOptions) {
        super(client, target, listener);
      }
    },
  );
}

class BoroughResolver implements experimental.Resolver {
  #end: AbortController | undefined;

  constructor(
    private readonly client: BoroughClient,
    private readonly target: experimental.GrpcUri,
    private readonly listener: experimental.ResolverListener,
  ) {}

  static getDefaultAuthority({ path }: experimental.GrpcUri): string {
    const { job, user, cell } = parseTarget(path);
    return `${job}.${user}.${cell}`;
  }

  updateResolution(): void {
    // The watch reports every change. Another look would find nothing else.
    if (this.#end) return;
    const end = new AbortController();
    this.#end = end;
    void this.#follow(end.signal).finally(() => {
      if (this.#end === end) this.#end = undefined;
    });
  }

  destroy(): void {
    this.#end?.abort();
    this.#end = undefined;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    try {
      const { job, user, cell, port } = parseTarget(this.target.path);
      const lists = this.client.with({ cell, user }).names.addresses(job, port, { signal });
      for await (const addresses of lists) this.#found(addresses);
    } catch (error) {
      if (signal.aborted) return;
      const details = error instanceof Error ? error.message : String(error);
      this.listener(experimental.statusOrFromError({ code: status.UNAVAILABLE, details }), {}, null, "");
    }
  }

  #found(addresses: readonly Address[]): void {
    const endpoints = addresses.map(({ host, port }) => ({ addresses: [{ host, port }] }));
    const config = experimental.statusOrFromValue(SERVICE_CONFIG);
    this.listener(experimental.statusOrFromValue(endpoints), {}, config, "");
  }
}
