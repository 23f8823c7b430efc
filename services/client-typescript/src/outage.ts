/** How long no gateway answers a stream: when its reader is notified, and when the client gives up. Pure. */

import type { BoroughError } from "./errors.js";

/** The reader is notified after this time, in milliseconds. A gateway that restarts is mostly back sooner. */
export const REPORTED_AFTER_MS = 3_000;

/** No gateway answers a stream. The client tries again by itself. */
export interface GatewayAbsence {
  /** What the last try came to. */
  readonly error: BoroughError;
  /** When the client gives up, in milliseconds from now on. Absent: never. */
  readonly givesUpInMs?: number;
}

/** The time since a stream broke without a message from any gateway. Times are of one monotonic clock. */
export class Outage {
  #reported = false;

  /** `patienceMs`: how long the client tries. */
  constructor(
    private readonly begunMs: number,
    private readonly patienceMs: number,
  ) {}

  /** What the outage has come to: the reader must be notified (once), or the client gives up. */
  step(nowMs: number): "report" | "give_up" | undefined {
    const lasts = nowMs - this.begunMs;
    if (lasts >= this.patienceMs) return "give_up";
    if (this.#reported || lasts < REPORTED_AFTER_MS) return undefined;
    this.#reported = true;
    return "report";
  }

  /** Milliseconds until the next step. */
  nextInMs(nowMs: number): number {
    const next = this.#reported ? this.patienceMs : Math.min(REPORTED_AFTER_MS, this.patienceMs);
    return Math.max(this.begunMs + next - nowMs, 0);
  }

  /** What the reader is notified of. */
  absence(error: BoroughError, nowMs: number): GatewayAbsence {
    if (this.patienceMs === Number.POSITIVE_INFINITY) return { error };
    return { error, givesUpInMs: Math.max(this.begunMs + this.patienceMs - nowMs, 0) };
  }
}
