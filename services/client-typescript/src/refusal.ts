/** Decodes what a gateway, or the connection to it, has answered instead of a result. Pure. */

import { Code, ConnectError } from "@connectrpc/connect";
import type { CodeName, Refusal } from "./errors.js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  PreconditionFailureSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";

/** Reasons of a refusal for want of an agent: its node does not answer, or is lost. */
const REASONS_SILENT = ["NODE_SILENT", "NODE_LOST"];
/** The reason if the agent may only have lost its connection. */
const REASON_AWAY = "AGENT_AWAY";
/** The reason if no federation process has answered. */
const REASON_FEDERATION_SILENT = "FEDERATION_SILENT";
/** The reason of a gateway that has too much to do. */
const REASON_OVERLOADED = "OVERLOADED";

const CODE_NAMES: Record<Code, CodeName> = {
  [Code.Canceled]: "CANCELLED",
  [Code.Unknown]: "UNKNOWN",
  [Code.InvalidArgument]: "INVALID_ARGUMENT",
  [Code.DeadlineExceeded]: "DEADLINE_EXCEEDED",
  [Code.NotFound]: "NOT_FOUND",
  [Code.AlreadyExists]: "ALREADY_EXISTS",
  [Code.PermissionDenied]: "PERMISSION_DENIED",
  [Code.ResourceExhausted]: "RESOURCE_EXHAUSTED",
  [Code.FailedPrecondition]: "FAILED_PRECONDITION",
  [Code.Aborted]: "ABORTED",
  [Code.OutOfRange]: "OUT_OF_RANGE",
  [Code.Unimplemented]: "UNIMPLEMENTED",
  [Code.Internal]: "INTERNAL",
  [Code.Unavailable]: "UNAVAILABLE",
  [Code.DataLoss]: "DATA_LOSS",
  [Code.Unauthenticated]: "UNAUTHENTICATED",
};

/** A failed try. */
export type Failure =
  /** A gateway answered with a status. */
  | { readonly from: "gateway"; readonly refusal: Refusal; readonly error: ConnectError }
  /** The connection failed or broke. `sent`: the request may have reached a gateway. */
  | { readonly from: "connection"; readonly sent: boolean; readonly error: ConnectError }
  /** Something answered that is no gateway. */
  | { readonly from: "stranger"; readonly what: string; readonly error: ConnectError };

/** The message with which the HTTP port of a gateway answers a call of gRPC. */
const GRPC_ON_HTTP_PORT = "this port answers HTTP; for gRPC, use the other address";
/** Of what speaks no gRPC. */
const NO_GATEWAY = "no gateway, but a web server or another service";
/** Of what answers a TLS handshake in plain text. */
const NO_TLS = "no gateway that encrypts";
/** How errors of the libraries begin that could not read an answer as one of gRPC, or of HTTP/2. */
const UNREAD = ["HTTP ", "unsupported content type", "protocol error: "];
/** What a stream that breaks looks like as well, and what a proxy says of a gateway that it cannot reach. */
const BROKEN = /^(protocol error: missing (status|output)|HTTP (429|502|503|504)$)/;
/** Codes of Node for an answer that is no HTTP/2. */
const NODE_UNREAD = ["ERR_HTTP2_ERROR", "HPE_INVALID_CONSTANT", "EPROTO", "ERR_SSL_WRONG_VERSION_NUMBER"];

/** The failure of a try that threw `thrown`. */
export function failureOf(thrown: unknown): Failure {
  const error = ConnectError.from(thrown);
  // Only what came over the wire has a status in its metadata.
  if (error.metadata.has("grpc-status")) {
    if (error.rawMessage.startsWith(GRPC_ON_HTTP_PORT)) {
      return { from: "stranger", what: "the HTTP port of a gateway", error };
    }
    return { from: "gateway", refusal: refusalOf(error), error };
  }
  if (causes(error).some(({ message }) => message.includes("wrong version number"))) {
    return { from: "stranger", what: NO_TLS, error };
  }
  if (isUnread(error)) return { from: "stranger", what: NO_GATEWAY, error };
  const unmade = causes(error).some((cause) => cause instanceof NotConnectedError);
  return { from: "connection", sent: !unmade, error };
}

/** The connection could not be made, so nothing was sent. The library may wrap it. */
export class NotConnectedError extends Error {
  constructor(cause: unknown) {
    super(cause instanceof ConnectError ? cause.rawMessage : String(cause), { cause });
  }
}

function isUnread(error: ConnectError): boolean {
  const { rawMessage } = error;
  if (BROKEN.test(rawMessage)) return false;
  if (UNREAD.some((begin) => rawMessage.startsWith(begin))) return true;
  return causes(error).some((cause) => NODE_UNREAD.includes(String((cause as { code?: unknown }).code)));
}

function causes(error: Error): Error[] {
  const found: Error[] = [];
  for (let next: unknown = error; next instanceof Error && !found.includes(next); next = next.cause) found.push(next);
  return found;
}

/** Decodes a status of a gateway with its details. */
export function refusalOf(error: ConnectError): Refusal {
  const info = error.findDetails(ErrorInfoSchema)[0];
  const retry = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return {
    code: CODE_NAMES[error.code] ?? "UNKNOWN",
    message: error.rawMessage,
    reason: info?.reason ?? "",
    metadata: { ...info?.metadata },
    fields: error
      .findDetails(BadRequestSchema)
      .flatMap((bad) => bad.fieldViolations.map(({ field, description }) => ({ field, description }))),
    preconditions: error
      .findDetails(PreconditionFailureSchema)
      .flatMap((failure) =>
        failure.violations.map(({ type, subject, description }) => ({ kind: type, subject, description })),
      ),
    ...(retry && { retryAfterMs: Number(retry.seconds) * 1000 + Math.ceil(retry.nanos / 1e6) }),
  };
}

/** Returns true if the gateway knows that the node of a task is silent or lost. Another try at once helps no more. */
export function isNodeSilent(refusal: Refusal): boolean {
  return REASONS_SILENT.includes(refusal.reason);
}

/** Returns true if no federation process has answered the gateway in time. */
export function isFederationSilent(refusal: Refusal): boolean {
  return refusal.reason === REASON_FEDERATION_SILENT;
}

/** Returns true if the agent of the node of a task does not answer. The metadata names the `node` and the `task`. */
export function isAgentAway(refusal: Refusal): boolean {
  return refusal.code === "UNAVAILABLE" && (refusal.reason === REASON_AWAY || isNodeSilent(refusal));
}

/** Returns true if a gateway has too much to do, and says when to ask again. */
export function isOverloaded(refusal: Refusal): boolean {
  const { code, reason, retryAfterMs } = refusal;
  return code === "RESOURCE_EXHAUSTED" && reason === REASON_OVERLOADED && retryAfterMs !== undefined;
}
