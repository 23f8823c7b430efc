import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type DescMethodUnary, type DescService, fromBinary } from "@bufbuild/protobuf";
import { Code, type ConnectRouter } from "@connectrpc/connect";
import { type Calls, isRead } from "../src/calls.js";
import { AccessService } from "../src/gen/borough/v1/access_pb.js";
import { CellService } from "../src/gen/borough/v1/cell_pb.js";
import { type DryRunRequest, DryRunService } from "../src/gen/borough/v1/dry_run_pb.js";
import { FederatedService } from "../src/gen/borough/v1/federated_pb.js";
import { JobService, ScaleJobRequestSchema, StopJobRequestSchema } from "../src/gen/borough/v1/job_pb.js";
import { MemberService } from "../src/gen/borough/v1/member_pb.js";
import { NodeService } from "../src/gen/borough/v1/node_pb.js";
import { QuotaService } from "../src/gen/borough/v1/quota_pb.js";
import { TaskService } from "../src/gen/borough/v1/task_pb.js";
import { type BoroughClient, DryRunError } from "../src/node.js";
import { clientOf, type FakeGateway, fakeGateway, refusal } from "./fake.js";

const STOPPING = { subject: "job bob/web", text: "stopping" };

/** A gateway that answers dry runs, after it has refused some. It keeps what it was asked. */
async function dryGateway(
  refusals: unknown[] = [],
  more: (router: ConnectRouter) => void = () => {},
): Promise<FakeGateway & { readonly asked: DryRunRequest[] }> {
  const asked: DryRunRequest[] = [];
  const gateway = await fakeGateway((router) => {
    router.service(DryRunService, {
      dryRun(request) {
        asked.push(request);
        if (refusals.length > 0) throw refusals.shift();
        return { changes: true, effects: [STOPPING], effectsLeftOut: 3 };
      },
    });
    more(router);
  });
  return { ...gateway, asked };
}

async function dryRunOf(call: Promise<unknown>): Promise<DryRunError> {
  const thrown = await call.then(
    () => assert.fail("it did not fail"),
    (error: unknown) => error,
  );
  assert.ok(thrown instanceof DryRunError, String(thrown));
  return thrown;
}

test("a dry run says what a change would do, and asks for nothing else", async () => {
  const gateway = await dryGateway([refusal(Code.Unavailable, "", "starting")]);
  const client = clientOf([gateway.address]);
  // What is derived from a client of dry runs makes dry runs, too.
  const dry = client.withDryRun().with({ user: "bob", cell: "beta" });
  const requestId = "0123456789abcdef0123456789abcdef";
  const found = await dryRunOf(dry.jobs.stop("web", { requestId }));
  assert.deepEqual([found.kind, found.method, found.changes, found.effectsLeftOut], ["dry_run", "StopJob", true, 3]);
  assert.deepEqual(
    found.effects.map(({ subject, text }) => ({ subject, text })),
    [STOPPING],
  );
  assert.equal(found.message, "a dry run of StopJob: nothing has changed");
  // A gateway that was away is asked again.
  assert.deepEqual(
    gateway.asked.map(({ method }) => method),
    ["JobService/StopJob", "JobService/StopJob"],
  );
  const request = fromBinary(StopJobRequestSchema, gateway.asked[1]?.request ?? new Uint8Array());
  assert.deepEqual([request.context?.user, request.context?.requestId], ["bob", requestId]);
  assert.deepEqual([request.cell, request.user, request.name], ["beta", "bob", "web"]);
  client.close();
  await gateway.stop();
});

test("no change of the API is made in a dry run", async () => {
  // Only dry runs have an answer there.
  const gateway = await dryGateway();
  const client = clientOf([gateway.address]).withDryRun();
  const { calls } = (client as unknown as { shared: { calls: Calls } }).shared;
  const services: DescService[] = [
    ...[AccessService, CellService, FederatedService, JobService],
    ...[MemberService, NodeService, QuotaService, TaskService],
  ];
  const changes = services.flatMap(({ methods }) =>
    methods.filter((method): method is DescMethodUnary => method.methodKind === "unary" && !isRead(method.name)),
  );
  assert.ok(changes.length > 25, String(changes.length));
  for (const method of changes) {
    assert.equal((await dryRunOf(calls.unary(method, create(method.input)))).method, method.name);
    assert.equal(gateway.asked.at(-1)?.method, `${method.parent.name}/${method.name}`);
  }
  assert.equal(gateway.asked.length, changes.length);
  client.close();
  await gateway.stop();
});

test("a dry run is refused as the change would be", async () => {
  const gateway = await dryGateway([refusal(Code.NotFound, "JOB_UNKNOWN", "no job")]);
  const client = clientOf([gateway.address]);
  const refused = { kind: "refused", code: "NOT_FOUND", reason: "JOB_UNKNOWN", message: "no job" };
  await assert.rejects(client.withDryRun().jobs.scale("web", 3), refused);
  const request = fromBinary(ScaleJobRequestSchema, gateway.asked[0]?.request ?? new Uint8Array());
  assert.equal(request.count, 3);
  await assert.rejects(client.withDryRun().jobs.scale("web", -1), { kind: "invalid" });
  assert.equal(gateway.asked.length, 1);
  client.close();
  await gateway.stop();
});

test("a dry run that is late has changed nothing", async () => {
  const gateway = await fakeGateway((router) => router.service(DryRunService, { dryRun: () => new Promise(() => {}) }));
  const client = clientOf([gateway.address], { deadlineMs: 50 });
  await assert.rejects(client.withDryRun().jobs.stop("web"), { kind: "deadline", changes: false });
  client.close();
  await gateway.stop();
});

test("a client of dry runs reads and runs no command", async () => {
  const made: string[] = [];
  const gateway = await dryGateway([], (router) => {
    router.service(CellService, { listCells: () => ({ cells: [{ name: "alpha" }] }) });
    router.service(JobService, {
      stopJob() {
        made.push("StopJob");
        return { job: { name: "web" } };
      },
    });
    router.service(TaskService, {
      async *exec() {
        made.push("Exec");
        yield { message: { case: "exit", value: { code: 0 } } };
      },
    });
  });
  const client = clientOf([gateway.address]);
  const dry: BoroughClient = client.withDryRun();
  assert.equal((await dry.cells.list())[0]?.name, "alpha");
  for (const call of [dry.tasks.run("web/0", ["rm"], { input: "x" }), dry.tasks.exec("web/0", ["rm"])]) {
    const { method, changes, effects } = await dryRunOf(call);
    assert.deepEqual([method, changes, effects], ["Exec", false, []]);
  }
  assert.deepEqual(made, []);
  // The client that it comes from makes its changes.
  await client.jobs.stop("web");
  assert.deepEqual(made, ["StopJob"]);
  client.close();
  for (const call of [dry.jobs.stop("web"), dry.tasks.exec("web/0", ["rm"])]) {
    await assert.rejects(call, { kind: "closed" });
  }
  await gateway.stop();
});
