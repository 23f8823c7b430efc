/** The audit: who has changed what in a cell, and who was refused. */

import { type CellContext, type ListOptions, pageOf } from "./context.js";
import { type AuditedCall, AuditOutcome, AuditService } from "./gen/borough/v1/audit_pb.js";
import { rowsOf } from "./iterate.js";

/** Which calls. All that is given must hold. */
export interface AuditFilter {
  /** By this principal, or in the name of this user: `ann`, `user/ann`, `operator`, `nobody`. */
  readonly by?: string;
  /** The name of a method, or the end of one: `StopJob`. */
  readonly method?: string;
  /** What it was about, or the beginning of that: `job/ann`, `node/n1`. */
  readonly object?: string;
  /** How it ended. */
  readonly outcome?: "done" | "refused";
  /** At this time or later. */
  readonly since?: Date;
  /** Before this time. */
  readonly until?: Date;
}

const OUTCOMES = { done: AuditOutcome.DONE, refused: AuditOutcome.REFUSED } as const;

/** The audit of a cell. Reading it needs the right to administer. */
export class Audit {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /** The calls that changed something or were refused, the newest first. */
  list(options: ListOptions & AuditFilter = {}): AsyncIterableIterator<AuditedCall> {
    const { by, method, object, outcome, since, until } = options;
    const filter = {
      by: by ?? "",
      method: method ?? "",
      object: object ?? "",
      outcome: outcome ? OUTCOMES[outcome] : AuditOutcome.UNSPECIFIED,
      sinceMs: BigInt(since?.getTime() ?? 0),
      untilMs: BigInt(until?.getTime() ?? 0),
    };
    const read = async (page: string, signal: AbortSignal) => {
      const answer = await this.context.calls.unary(
        AuditService.method.listAudit,
        { context: this.context.read(), cell: this.context.cell, filter, page: pageOf(page, options) },
        { ...options, signal },
      );
      return { rows: answer.calls, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }
}
