/** Decides whether a call is tried again, and after which pause. Pure: the random number is an argument. */

import { type Failure, isFederationSilent, isNodeSilent, isOverloaded } from "./refusal.js";

/** How often and how fast calls are tried again. */
export interface RetryPolicy {
  /** The most tries, the first one included. */
  readonly attemptsMax: number;
  /** The pause before the second try, in milliseconds; each further failure doubles it. */
  readonly backoffInitialMs: number;
  /** The longest pause, in milliseconds. */
  readonly backoffMaxMs: number;
}

/**
 * Six tries over about a second and a half: long enough for a gateway to restart, short enough for a person to wait.
 */
export const RETRY_DEFAULT: RetryPolicy = { attemptsMax: 6, backoffInitialMs: 50, backoffMaxMs: 2_000 };

/**
 * The pause after `attempts` failed tries, in milliseconds: between half and all of the doubled step, by `random` from
 * 0 to 1. Clients that lost the same gateway therefore do not come back together.
 */
export function pauseMs(policy: RetryPolicy, attempts: number, random: number): number {
  const doublings = Math.min(Math.max(attempts - 1, 0), 16);
  const step = Math.min(policy.backoffInitialMs * 2 ** doublings, policy.backoffMaxMs);
  return step / 2 + (step / 2) * random;
}

/** What follows a failed try. */
export type Verdict =
  /** Another try cannot help. */
  | { readonly next: "give_up" }
  /** The gateway has too much to do. It counts as no failure, and the pause is the server's. */
  | { readonly next: "wait"; readonly afterMs: number }
  /** Another try may help, after `afterMs` at least. */
  | { readonly next: "repeat"; readonly afterMs: number };

/**
 * What follows a failed try. Every call is safe to repeat: reads change nothing, and a change carries its request id.
 */
export function verdict(failure: Failure): Verdict {
  if (failure.from !== "gateway") return { next: "repeat", afterMs: 0 };
  const { refusal } = failure;
  const afterMs = refusal.retryAfterMs ?? 0;
  if (isOverloaded(refusal)) return { next: "wait", afterMs };
  // The gateway of a silent node, or of a silent federation, has asked often enough.
  if (isNodeSilent(refusal) || isFederationSilent(refusal)) return { next: "give_up" };
  // The second is the time limit of the store. This library enforces its own deadline over all tries.
  const passes = refusal.code === "UNAVAILABLE" || refusal.code === "DEADLINE_EXCEEDED";
  return passes ? { next: "repeat", afterMs } : { next: "give_up" };
}
