import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  FederatedService,
  OrderFederatedReleaseRequest_Order as Order,
  type OrderFederatedReleaseRequest,
  type RunFederatedJobRequest,
} from "../src/gen/borough/v1/federated_pb.js";
import { BadRequestSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { BoroughError, type Client, type JobFile, listOf, type RefusedError, type ReleaseOrder } from "../src/node.js";
import { clientOf, fakeGateway, refusal } from "./fake.js";

const FILE: JobFile = { name: "web", count: 3, task: { command: ["serve"] }, federation: { split: "weight" } };
const OWN = "0123456789abcdef0123456789abcdef";

/** Does something with a gateway that answers calls of federated jobs. */
async function against(
  answers: Partial<ServiceImpl<typeof FederatedService>>,
  work: (client: Client) => Promise<void>,
): Promise<void> {
  const gateway = await fakeGateway((router) => router.service(FederatedService, answers));
  const client = clientOf([gateway.address], { cell: "federation" });
  try {
    await work(client);
  } finally {
    client.close();
    await gateway.stop();
  }
}

async function failure(promise: Promise<unknown>): Promise<BoroughError> {
  const error = await promise.then(
    () => assert.fail("it did not fail"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof BoroughError, String(error));
  return error;
}

test("a job file is sent as JSON, with its name and its owner", async () => {
  const got: RunFederatedJobRequest[] = [];
  const runFederatedJob = (request: RunFederatedJobRequest) => {
    got.push(request);
    return { job: { revision: 4n }, changed: true };
  };
  await against({ runFederatedJob }, async (client) => {
    const { job, changed } = await client.federated.run(FILE, { expectedRevision: 3n, requestId: OWN });
    assert.ok(changed && job.revision === 4n);
    await client.federated.run({ ...FILE, user: "bob" });
    await client.federated.run(JSON.stringify(FILE));
  });
  const sent = got.map(({ cell, user, name, expectedRevision }) => [cell, user, name, expectedRevision]);
  assert.deepEqual(sent, [
    ["federation", "ada", "web", 3n],
    ["federation", "bob", "web", 0n],
    ["federation", "ada", "web", 0n],
  ]);
  assert.deepEqual(JSON.parse(got[0]?.jobFile ?? ""), FILE);
  assert.deepEqual(JSON.parse(got[2]?.jobFile ?? ""), FILE);
  const ids = got.map(({ context }) => context?.requestId);
  assert.equal(ids[0], OWN);
  assert.notEqual(ids[1], ids[2]);
});

test("what is no job file is refused before it is sent", async () => {
  const answers = { runFederatedJob: () => assert.fail("sent"), planFederatedJob: () => assert.fail("sent") };
  await against(answers, async ({ federated }) => {
    const files: [unknown, string][] = [
      [null, "jobFile"],
      [["web"], "jobFile"],
      ["{", "jobFile"],
      ["3", "jobFile"],
      [{ federation: {} }, "jobFile.name"],
      [{ ...FILE, name: 3 }, "jobFile.name"],
      [{ ...FILE, user: null }, "jobFile.user"],
      [{ ...FILE, count: 3n }, "jobFile"],
    ];
    for (const [file, field] of files) {
      for (const call of [federated.run(file as JobFile), federated.plan(file as JobFile)]) {
        const error = await failure(call);
        assert.ok(error.kind === "invalid" && "fields" in error);
        assert.deepEqual(
          (error.fields as { field: string }[]).map((each) => each.field),
          [field],
        );
      }
    }
  });
});

test("a plan has what is there and what would be", async () => {
  const planFederatedJob = () => ({ after: { parts: [{ cell: "eu1", count: 3 }] }, changed: true });
  await against({ planFederatedJob }, async ({ federated }) => {
    const { before, after, changed } = await federated.plan(FILE);
    assert.equal(before, undefined);
    assert.ok(changed && after.parts[0]?.count === 3);
  });
});

test("a silent federation is a refusal, and is not asked again", async () => {
  let calls = 0;
  const planFederatedJob = () => {
    calls += 1;
    throw refusal(Code.Unavailable, "FEDERATION_SILENT", "no federation process has answered");
  };
  await against({ planFederatedJob }, async ({ federated }) => {
    const error = await failure(federated.plan(FILE));
    assert.ok(error.kind === "refused");
    assert.equal((error as RefusedError).reason, "FEDERATION_SILENT");
  });
  assert.equal(calls, 1);
});

test("a list goes over all pages, also over empty ones", async () => {
  const got: unknown[] = [];
  const pages = [{ jobs: [{ name: "one" }], nextPage: "1" }, { nextPage: "2" }, { jobs: [{ name: "two" }] }];
  const answers: Partial<ServiceImpl<typeof FederatedService>> = {
    listFederatedJobs({ user, stopped, member, page }) {
      got.push([user, stopped, member, page?.page, page?.limit]);
      return pages[Number(page?.page ?? "")] ?? {};
    },
  };
  await against(answers, async ({ federated }) => {
    const rows = await listOf(federated.list({ user: "*", stopped: true, member: "eu1" }, { pageSize: 1 }));
    assert.deepEqual(
      rows.map(({ name }) => name),
      ["one", "two"],
    );
    await listOf(federated.list());
  });
  assert.deepEqual(got.slice(0, 4), [
    ["", true, "eu1", "", 1],
    ["", true, "eu1", "1", 1],
    ["", true, "eu1", "2", 1],
    ["ada", false, "", "", 0],
  ]);
});

test("a job is read with its file, and run again", async () => {
  const got: RunFederatedJobRequest[] = [];
  let jobFile = JSON.stringify(FILE);
  const answers: Partial<ServiceImpl<typeof FederatedService>> = {
    getFederatedJob: ({ user, name }) => ({ job: { user, name, revision: 7n }, jobFile }),
    getFederatedJobHistory: () => ({ versions: [{ version: 2n, jobFile }] }),
    runFederatedJob(request) {
      got.push(request);
      return { job: {} };
    },
  };
  await against(answers, async ({ federated }) => {
    const { job, jobFile: known } = await federated.get("bob/web");
    assert.equal(`${job.user}/${job.name}`, "bob/web");
    await federated.run({ ...known, count: 9 }, { expectedRevision: job.revision });
    for (const version of await federated.history(job)) await federated.run(version.jobFile);
    jobFile = "";
    assert.equal((await failure(federated.get("web"))).kind, "incomplete");
  });
  assert.deepEqual(JSON.parse(got[0]?.jobFile ?? ""), { ...FILE, count: 9 });
  assert.equal(got[0]?.expectedRevision, 7n);
  assert.deepEqual(JSON.parse(got[1]?.jobFile ?? ""), FILE);
});

test("a change says what it wants, and has one request id over all tries", async () => {
  const orders: OrderFederatedReleaseRequest[] = [];
  const ids: (string | undefined)[] = [];
  const forgotten = [{ job: { name: "web" } }, {}];
  const answers: Partial<ServiceImpl<typeof FederatedService>> = {
    scaleFederatedJob({ context, count }) {
      ids.push(context?.requestId);
      if (ids.length < 3) throw refusal(Code.Unavailable, "", "later");
      return { job: { count } };
    },
    stopFederatedJob: ({ context }) => ({ job: { changedBy: context?.requestId ?? "" } }),
    rebalanceFederatedJob: ({ which, expectedRevision }) => ({ job: { count: which, revision: expectedRevision } }),
    forgetFederatedJob: () => forgotten.shift() ?? {},
    orderFederatedRelease(request) {
      orders.push(request);
      return { job: {} };
    },
  };
  await against(answers, async ({ federated }) => {
    assert.equal((await federated.scale("web", 5)).count, 5);
    const { count, revision } = await federated.rebalance("web", "stuck", { expectedRevision: 3n });
    assert.deepEqual([count, revision], [2, 3n]);
    assert.equal((await federated.stop("web", { requestId: OWN })).changedBy, OWN);
    for (const order of ["pause", "resume", "undo"] as ReleaseOrder[]) await federated.release("bob/web", order);
    await federated.release("web", "approve", { stage: 1, requestId: OWN });
    assert.equal((await federated.forget("web"))?.name, "web");
    assert.equal(await federated.forget("web"), undefined);
    assert.equal((await failure(federated.scale("web", -1))).kind, "invalid");
    assert.equal((await failure(federated.release("web", "approve"))).kind, "invalid");
  });
  assert.equal(new Set(ids).size, 1);
  assert.deepEqual(
    orders.map(({ user, order, stage }) => [user, order, stage]),
    [
      ["bob", Order.PAUSE, 0],
      ["bob", Order.RESUME, 0],
      ["bob", Order.REVERT, 0],
      ["ada", Order.APPROVE, 1],
    ],
  );
  assert.equal(orders[3]?.context?.requestId, OWN);
});

test("a refused job file names its field", async () => {
  const description = "federation.split: up; accepted: free";
  const runFederatedJob = () => {
    const value = { fieldViolations: [{ field: "job_file", description }] };
    throw new ConnectError("split", Code.InvalidArgument, undefined, [{ desc: BadRequestSchema, value }]);
  };
  await against({ runFederatedJob }, async ({ federated }) => {
    const error = (await failure(federated.run(FILE))) as RefusedError;
    assert.deepEqual([error.code, error.fields], ["INVALID_ARGUMENT", [{ field: "job_file", description }]]);
  });
});
