import assert from "node:assert/strict";
import { test } from "node:test";
import { AuditOutcome, AuditService } from "../src/gen/borough/v1/audit_pb.js";
import { clientOf, fakeGateway } from "./fake.js";

test("the audit is listed page by page, by all that is asked", async () => {
  const got: unknown[] = [];
  const gateway = await fakeGateway((router) =>
    router.service(AuditService, {
      listAudit({ cell, filter, page }) {
        got.push([cell, filter?.by, filter?.method, filter?.outcome, filter?.sinceMs, page?.page]);
        // A page may be empty and have a next one.
        if (!page?.page) return { calls: [], nextPage: "second" };
        return { calls: [{ method: "JobService/StopJob", by: "user/eve", atMs: 5n }] };
      },
    }),
  );
  const client = clientOf([gateway.address]);
  const calls: string[] = [];
  const asked = { by: "eve", method: "StopJob", outcome: "refused", since: new Date(4) } as const;
  for await (const call of client.audit.list(asked)) calls.push(`${call.by} ${call.method}`);
  assert.deepEqual(calls, ["user/eve JobService/StopJob"]);
  const sent = ["alpha", "eve", "StopJob", AuditOutcome.REFUSED, 4n];
  assert.deepEqual(got, [
    [...sent, ""],
    [...sent, "second"],
  ]);
  client.close();
  await gateway.stop();
});
