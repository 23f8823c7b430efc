/** What the calls of one client for one cell and user share. */

import { create } from "@bufbuild/protobuf";
import type { CallOptions, Calls } from "./calls.js";
import { IncompleteError, invalid } from "./errors.js";
import { type RequestContext, RequestContextSchema } from "./gen/borough/v1/common_pb.js";

/** What a call that changes something may set for itself. */
export interface ChangeOptions extends CallOptions {
  /**
   * 32 hexadecimal digits that name the intent: a change that is repeated with the same id has one effect. Set it if
   * you store your intents. Default: a new one for each call, and the same for all its tries.
   */
  readonly requestId?: string | undefined;
}

/** What a list may set for itself. */
export interface ListOptions extends CallOptions {
  /** Rows of a page at most, 1 to 1,000. Default: 1,000. */
  readonly pageSize?: number | undefined;
}

/** The cell and the user of calls, and how to send them. */
export class CellContext {
  constructor(
    readonly calls: Calls,
    readonly cell: string,
    readonly user: string,
  ) {}

  /** The context of a read. */
  read(): RequestContext {
    return create(RequestContextSchema, { user: this.user });
  }

  /** The context of a change, with one id for all its tries. */
  change({ requestId = newRequestId() }: ChangeOptions): RequestContext {
    if (!/^[0-9a-f]{32}$/i.test(requestId)) throw invalid("requestId", requestId, "32 hexadecimal digits");
    return create(RequestContextSchema, { user: this.user, requestId });
  }
}

/** A new id of a request: 32 hexadecimal digits. */
export function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A field that an answer must have. */
export function present<T>(method: string, field: string, value: T | undefined): T {
  if (value === undefined) throw new IncompleteError(method, field);
  return value;
}

/** The request of one page. */
export function pageOf(page: string, { pageSize = 0 }: ListOptions): { page: string; limit: number } {
  if (!Number.isInteger(pageSize) || pageSize < 0 || pageSize > 1_000) throw invalid("pageSize", pageSize, "1 to 1000");
  return { page, limit: pageSize };
}
