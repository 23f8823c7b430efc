/**
 * Errors of this library. Each is a {@link BoroughError}, and its `kind` says which one: branch on `kind`, or with
 * `instanceof`.
 */

import type { DryRunEffect, DryRunResponse } from "./gen/borough/v1/dry_run_pb.js";

/** The name of a gRPC code, such as `INVALID_ARGUMENT`. */
export type CodeName =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

/** An invalid field of a request, as a gateway names it. */
export interface FieldViolation {
  /** The path of the field, such as `spec.task.ports[0].number`. */
  readonly field: string;
  /** What is wrong with it, and what would be accepted. */
  readonly description: string;
}

/** A condition that is not met. */
export interface Precondition {
  /** The kind of condition. */
  readonly kind: string;
  /** What it is about, such as `job alice/web`. */
  readonly subject: string;
  /** One sentence for people. */
  readonly description: string;
}

/** Why a gateway refused a call. */
export interface Refusal {
  /** The gRPC code. */
  readonly code: CodeName;
  /** One sentence for people. It says what would be accepted. */
  readonly message: string;
  /** The reason for programs, such as `JOB_CHANGED`; empty if none came. */
  readonly reason: string;
  /** Facts about the reason. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The invalid fields of the request. */
  readonly fields: readonly FieldViolation[];
  /** The conditions that are not met. */
  readonly preconditions: readonly Precondition[];
  /** When to ask again, in milliseconds, if the gateway set it. */
  readonly retryAfterMs?: number;
}

/** What went wrong, for a `switch`. */
export type ErrorKind =
  | "refused"
  | "unreachable"
  | "deadline"
  | "not_gateway"
  | "token_refused"
  | "invalid"
  | "cancelled"
  | "closed"
  | "dry_run"
  | "unsupported"
  | "incomplete";

/** The base of all errors of this library. */
export abstract class BoroughError extends Error {
  /** What went wrong. */
  abstract readonly kind: ErrorKind;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The gateway refused. Its message says what would be accepted. */
export class RefusedError extends BoroughError implements Refusal {
  readonly kind = "refused";
  readonly code: CodeName;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly fields: readonly FieldViolation[];
  readonly preconditions: readonly Precondition[];
  declare readonly retryAfterMs?: number;

  constructor(refusal: Refusal, options?: ErrorOptions) {
    super(refusal.message || refusal.code, options);
    this.code = refusal.code;
    this.reason = refusal.reason;
    this.metadata = refusal.metadata;
    this.fields = refusal.fields;
    this.preconditions = refusal.preconditions;
    if (refusal.retryAfterMs !== undefined) this.retryAfterMs = refusal.retryAfterMs;
  }
}

/** No gateway could be reached, or all were unavailable. The call may be repeated. The `cause` is the last failure. */
export class UnreachableError extends BoroughError {
  readonly kind = "unreachable";

  constructor(
    /** The addresses that were tried. */
    readonly gateways: readonly string[],
    /** The number of tries over all gateways. */
    readonly attempts: number,
    /** True if a change was sent and its answer was lost. Repeat it under the same request id. */
    readonly changes: boolean,
    /** The refusal of the last gateway that answered, such as that of a gateway without its store. */
    readonly refusal?: Refusal,
    options?: ErrorOptions,
  ) {
    const said = refusal ? `: ${refusal.message || refusal.code}` : causeText(options?.cause);
    super(`no gateway answered at ${gateways.join(", ")} (attempts: ${attempts})${said}`, options);
  }
}

/** What has failed, such as `connect ECONNREFUSED 127.0.0.1:7400`: the innermost cause says it best. */
function causeText(cause: unknown): string {
  let found = cause;
  for (let depth = 0; depth < 10 && found instanceof Error && found.cause instanceof Error; depth++)
    found = found.cause;
  return found instanceof Error && found.message ? `: ${found.message}` : "";
}

/** The call was not over in time. */
export class DeadlineError extends BoroughError {
  readonly kind = "deadline";

  constructor(
    /** The name of the call, such as `SubmitJob`. */
    readonly method: string,
    /** The time limit over all tries, in milliseconds. */
    readonly deadlineMs: number,
    /** The addresses that were tried. */
    readonly gateways: readonly string[],
    /** True if the call may have changed something. Check, or repeat it under the same request id. */
    readonly changes: boolean,
    options?: ErrorOptions,
  ) {
    super(`the gateway at ${gateways.join(", ")} did not answer within ${deadlineMs / 1000} s (${method})`, options);
  }
}

/** Something answers at the address that is not the gRPC port of a gateway. Correct the address. */
export class NotGatewayError extends BoroughError {
  readonly kind = "not_gateway";

  constructor(
    /** The addresses that were tried. */
    readonly gateways: readonly string[],
    /** What answers there, as far as its answer shows. */
    readonly what: string,
    options?: ErrorOptions,
  ) {
    super(`${gateways.join(", ")} is ${what}; accepted: the gRPC port of a gateway`, options);
  }
}

/** The gateway accepts no call with this token, or without one. Give another one. */
export class TokenRefusedError extends BoroughError {
  readonly kind = "token_refused";
  /** The gRPC code. */
  readonly code = "UNAUTHENTICATED";

  constructor(
    /** The addresses of the gateways. */
    readonly gateways: readonly string[],
    /** Where the token is from; absent: none was sent. */
    readonly token: string | undefined,
    /** What the gateway said. */
    readonly refusal: Refusal,
    options?: ErrorOptions,
  ) {
    super(`the gateway at ${gateways.join(", ")} ${tokenRefused(token, refusal)}`, options);
  }
}

function tokenRefused(token: string | undefined, { reason, message }: Refusal): string {
  const signed = reason === "TOKEN_REFUSED" || reason === "CERTIFICATE_REFUSED";
  const why = signed ? `: ${message}` : "";
  if (token !== undefined) return `does not accept the token of ${token}${why}`;
  return signed ? `needs a token or another certificate${why}` : "needs a token, and none is given";
}

/** A value that this library refuses before it sends anything. */
export interface InvalidField {
  /** The path of the field, such as `ports[0].number`. */
  readonly field: string;
  /** The value as it was given. */
  readonly value: string;
  /** What would be accepted. */
  readonly accepted: string;
}

/** The library refused a value, and sent nothing. It names every invalid field at once. */
export class InvalidError extends BoroughError {
  readonly kind = "invalid";

  constructor(
    /** The invalid fields: at least one. */
    readonly fields: readonly InvalidField[],
    options?: ErrorOptions,
  ) {
    const lines = fields.map(({ field, value, accepted }) => `${field}: ${value}; accepted: ${accepted}`);
    super(lines.length === 1 ? (lines[0] ?? "") : `${lines.length} fields:\n  ${lines.join("\n  ")}`, options);
  }
}

/** The caller ended the call by its `AbortSignal`. The `cause` is the reason of the signal. */
export class CancelledError extends BoroughError {
  readonly kind = "cancelled";

  constructor(reason?: unknown) {
    super("the caller cancelled the call", { cause: reason });
    // Programs for Node and browsers tell an abort by this name.
    this.name = "AbortError";
  }
}

/** The client was closed, before the call or during it. */
export class ClosedError extends BoroughError {
  readonly kind = "closed";

  constructor() {
    super("the client is closed");
  }
}

/**
 * What a change would do, from a client of `withDryRun()`. A gateway has checked the change, and nothing has changed.
 * Somebody else may have changed the cell by the time that the change is made.
 */
export class DryRunError extends BoroughError {
  readonly kind = "dry_run";
  /** Whether anything would change. */
  readonly changes: boolean;
  /** What would happen to each object: at most 1,000 of them. */
  readonly effects: readonly DryRunEffect[];
  /** How many further objects there are. */
  readonly effectsLeftOut: number;

  constructor(
    /** The name of the call, such as `StopJob`. Of `Exec` no gateway is asked, so the other fields are empty. */
    readonly method: string,
    found: Partial<Pick<DryRunResponse, "changes" | "effects" | "effectsLeftOut">> = {},
  ) {
    super(`a dry run of ${method}: nothing has changed`);
    this.changes = found.changes ?? false;
    this.effects = found.effects ?? [];
    this.effectsLeftOut = found.effectsLeftOut ?? 0;
  }
}

/** What is called is not possible here, such as exec in a browser. */
export class UnsupportedError extends BoroughError {
  readonly kind = "unsupported";
}

/** An answer lacks a field that it must have: the library and the gateway are too many versions apart. */
export class IncompleteError extends BoroughError {
  readonly kind = "incomplete";

  constructor(
    /** The name of the call. */
    readonly method: string,
    /** The field that is absent. */
    readonly field: string,
  ) {
    super(`the answer to ${method} lacks \`${field}\`: client and gateway are of different versions`);
  }
}

/** Refuses one value. */
export function invalid(field: string, value: unknown, accepted: string): InvalidError {
  return new InvalidError([{ field, value: shown(value), accepted }]);
}

/** The most that a number of the protocol carries. What a cell takes of that, its gateways say. */
export const UINT32_MAX = 0xffffffff;

/** Refuses a value that is no whole number within bounds. */
export function requireWhole(field: string, value: unknown, least: number, most: number): void {
  const fits = typeof value === "number" && Number.isInteger(value) && value >= least && value <= most;
  if (!fits) throw invalid(field, value, `a whole number from ${least} to ${most}`);
}

/** A value as an error shows it: at most 100 characters, texts in double quotes. */
export function shown(value: unknown): string {
  const plain = typeof value === "bigint" || typeof value === "number" || value === undefined;
  const text = plain ? String(value) : (JSON.stringify(value, bigintText) ?? String(value));
  return text.length > 100 ? `${text.slice(0, 100)}...` : text;
}

function bigintText(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? value.toString() : value;
}
