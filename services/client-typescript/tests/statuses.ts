/** Statuses as they come over the wire, for tests of pure functions. */

import { create, toBinary } from "@bufbuild/protobuf";
import { type Code, ConnectError } from "@connectrpc/connect";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  PreconditionFailureSchema,
  RetryInfoSchema,
} from "../src/gen/google/rpc/error_details_pb.js";

/** The error of a status that a gateway sent. */
export function gatewayError(code: Code, reason = "", retryMs?: number, message = "no"): ConnectError {
  const error = new ConnectError(message, code, { "grpc-status": `${code}` });
  const metadata = { job: "ada/web" };
  error.details = [
    { type: "google.rpc.ErrorInfo", value: toBinary(ErrorInfoSchema, create(ErrorInfoSchema, { reason, metadata })) },
    {
      type: "google.rpc.BadRequest",
      value: toBinary(
        BadRequestSchema,
        create(BadRequestSchema, {
          fieldViolations: [{ field: "spec.count", description: 'spec.count: "x"; accepted: a number' }],
        }),
      ),
    },
    {
      type: "google.rpc.PreconditionFailure",
      value: toBinary(
        PreconditionFailureSchema,
        create(PreconditionFailureSchema, {
          violations: [{ type: "REVISION", subject: "job ada/web", description: "it is 5" }],
        }),
      ),
    },
  ];
  if (retryMs !== undefined) {
    const retryDelay = { seconds: BigInt(Math.floor(retryMs / 1_000)), nanos: (retryMs % 1_000) * 1_000_000 };
    error.details.push({
      type: "google.rpc.RetryInfo",
      value: toBinary(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })),
    });
  }
  return error;
}
