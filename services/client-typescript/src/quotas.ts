/** Quotas: how much a user or a group may have admitted in a band, and how much is. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, type ListOptions, pageOf, present } from "./context.js";
import { Band, type Quota, type QuotaChange, type QuotaLimitSchema, QuotaService } from "./gen/borough/v1/quota_pb.js";
import { rowsOf } from "./iterate.js";

/** A range of priorities that a quota limits. */
export type BandName = "best_effort" | "batch" | "production" | "monitoring";

/** How much may be admitted at once. An amount of 0 is no limit. */
export type QuotaLimits = MessageInitShape<typeof QuotaLimitSchema>;

/** A line with its last changes. */
export interface QuotaDetail {
  /** The line. */
  readonly quota: Quota;
  /** The last changes, oldest first. */
  readonly changes: readonly QuotaChange[];
}

const BANDS: Record<BandName, Band> = {
  best_effort: Band.BEST_EFFORT,
  batch: Band.BATCH,
  production: Band.PRODUCTION,
  monitoring: Band.MONITORING,
};

/** The quotas of a cell. */
export class Quotas {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /**
   * The lines that were set or have charges, by holder and band.
   *
   * @param options - `user`: only those of this holder, such as `ann` or `group/shop`. `parent`: only those right below
   * this group.
   */
  list(options: ListOptions & { readonly user?: string; readonly parent?: string } = {}): AsyncIterableIterator<Quota> {
    const read = async (page: string, signal: AbortSignal) => {
      const answer = await this.context.calls.unary(
        QuotaService.method.listQuotas,
        {
          context: this.context.read(),
          cell: this.context.cell,
          user: options.user ?? "",
          parent: options.parent ?? "",
          page: pageOf(page, options),
        },
        { ...options, signal },
      );
      return { rows: answer.quotas, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }

  /** One line. A line that was never set limits nothing. */
  async get(user: string, band: BandName, options: CallOptions = {}): Promise<QuotaDetail> {
    const message = { context: this.context.read(), cell: this.context.cell, user, band: BANDS[band] };
    const { quota, changes } = await this.context.calls.unary(QuotaService.method.getQuota, message, options);
    return { quota: present("GetQuota", "quota", quota), changes };
  }

  /**
   * Replaces the limit of a line, or removes it with `undefined`. Admitted work beyond it stays.
   *
   * @param options - `expectedRevision`: another revision of the line is then refused.
   */
  async set(
    user: string,
    band: BandName,
    limit: QuotaLimits | undefined,
    options: ChangeOptions & { readonly expectedRevision?: bigint } = {},
  ): Promise<Quota> {
    const message = {
      context: this.context.change(options),
      cell: this.context.cell,
      user,
      band: BANDS[band],
      ...(limit && { limit }),
      expectedRevision: options.expectedRevision ?? 0n,
    };
    const { quota } = await this.context.calls.unary(QuotaService.method.setQuota, message, options);
    return present("SetQuota", "quota", quota);
  }
}
