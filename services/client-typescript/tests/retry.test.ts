import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { failureOf, NotConnectedError, refusalOf } from "../src/refusal.js";
import { pauseMs, RETRY_DEFAULT, verdict } from "../src/retry.js";
import { gatewayError } from "./statuses.js";

test("pauses grow, stay within bounds, and differ", () => {
  for (let attempts = 0; attempts < 100; attempts += 1) {
    for (const random of [0, 0.3, 0.999]) {
      const pause = pauseMs(RETRY_DEFAULT, attempts, random);
      assert.ok(pause >= RETRY_DEFAULT.backoffInitialMs / 2 && pause <= RETRY_DEFAULT.backoffMaxMs, `${attempts}`);
    }
  }
  assert.ok(pauseMs(RETRY_DEFAULT, 3, 0) > pauseMs(RETRY_DEFAULT, 1, 0));
  assert.notEqual(pauseMs(RETRY_DEFAULT, 5, 0), pauseMs(RETRY_DEFAULT, 5, 0.5));
});

test("only what may pass is tried again", () => {
  const next = (code: Code, reason = "", retryMs?: number) =>
    verdict(failureOf(gatewayError(code, reason, retryMs))).next;
  for (const code of [Code.NotFound, Code.FailedPrecondition, Code.Aborted, Code.Internal, Code.Unknown]) {
    assert.equal(next(code), "give_up", Code[code]);
  }
  assert.equal(next(Code.Unavailable), "repeat");
  assert.equal(next(Code.DeadlineExceeded), "repeat");
  assert.equal(next(Code.Unavailable, "AGENT_AWAY"), "repeat");
  assert.equal(next(Code.Unavailable, "NODE_SILENT"), "give_up");
  assert.equal(next(Code.Unavailable, "NODE_LOST"), "give_up");
  assert.equal(next(Code.Unavailable, "FEDERATION_SILENT"), "give_up");
  assert.equal(next(Code.ResourceExhausted, "OVERLOADED", 200), "wait");
  assert.equal(next(Code.ResourceExhausted, "OVERLOADED"), "give_up", "without a time");
  assert.equal(next(Code.ResourceExhausted, "QUOTA_EXCEEDED", 200), "give_up");
});

test("the time of the server is obeyed", () => {
  const obeyed = verdict(failureOf(gatewayError(Code.Unavailable, "STORE_SILENT", 1_500)));
  assert.deepEqual(obeyed, { next: "repeat", afterMs: 1_500 });
});

test("a connection that breaks is tried again, and says whether anything was sent", () => {
  const broken = failureOf(new ConnectError("reset", Code.Aborted));
  assert.deepEqual([broken.from, verdict(broken).next], ["connection", "repeat"]);
  assert.equal(broken.from === "connection" && broken.sent, true);
  const unmade = failureOf(new NotConnectedError(new Error("ECONNREFUSED")));
  assert.equal(unmade.from === "connection" && unmade.sent, false);
  // A code that the connection gives is none of the gateway.
  assert.equal(failureOf(new ConnectError("http/2 stream closed", Code.PermissionDenied)).from, "connection");
});

test("a gateway and something else are kept apart", () => {
  const from = (message: string) => failureOf(new ConnectError(message, Code.Unknown)).from;
  assert.equal(from("unsupported content type text/html"), "stranger");
  assert.equal(from("HTTP 404"), "stranger");
  assert.equal(from("HTTP 503"), "connection", "a proxy before a gateway");
  assert.equal(from("protocol error: missing status"), "connection", "a stream that broke");
  const port = gatewayError(
    Code.Unimplemented,
    "",
    undefined,
    "this port answers HTTP; for gRPC, use the other address that",
  );
  assert.equal(failureOf(port).from, "stranger");
});

test("all details of a refusal are decoded", () => {
  assert.deepEqual(refusalOf(gatewayError(Code.FailedPrecondition, "JOB_CHANGED", 2_500, "the job has changed")), {
    code: "FAILED_PRECONDITION",
    message: "the job has changed",
    reason: "JOB_CHANGED",
    metadata: { job: "ada/web" },
    fields: [{ field: "spec.count", description: 'spec.count: "x"; accepted: a number' }],
    preconditions: [{ kind: "REVISION", subject: "job ada/web", description: "it is 5" }],
    retryAfterMs: 2_500,
  });
  assert.deepEqual(refusalOf(new ConnectError("no", Code.NotFound)).fields, []);
});

test("details that this version does not know, or that are damaged, break nothing", () => {
  const error = gatewayError(Code.NotFound, "NO_JOB");
  error.details.unshift({ type: "google.rpc.Newer", value: new Uint8Array([1, 2, 3]) });
  error.details.unshift({ type: "google.rpc.BadRequest", value: new Uint8Array([255, 255, 255]) });
  assert.equal(refusalOf(error).reason, "NO_JOB");
});
