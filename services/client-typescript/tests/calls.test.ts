import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { inspect } from "node:util";
import { Code, type ConnectRouter } from "@connectrpc/connect";
import { CellService } from "../src/gen/borough/v1/cell_pb.js";
import { type JobKind, JobService, type JobState } from "../src/gen/borough/v1/job_pb.js";
import { Health } from "../src/gen/grpc/health/v1/health_pb.js";
import { BoroughError, Client, InvalidError, listOf } from "../src/node.js";
import { clientOf, closedAddress, fakeGateway, refusal, silentServer } from "./fake.js";

/** A gateway that answers ListCells with its name, after it has refused some calls. */
function cells(name: string, refusals: (() => unknown)[] = []): (router: ConnectRouter) => void {
  return (router) =>
    router.service(CellService, {
      listCells() {
        const refuse = refusals.shift();
        if (refuse) throw refuse();
        return { cells: [{ name }] };
      },
    });
}

async function nameOf(client: Client): Promise<string | undefined> {
  return (await client.cells.list())[0]?.name;
}

async function failure(promise: Promise<unknown>): Promise<BoroughError> {
  const error = await promise.then(
    () => assert.fail("it did not fail"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof BoroughError, String(error));
  return error;
}

test("a call goes to the next gateway if one cannot be reached, and stays there", async () => {
  const gateway = await fakeGateway(cells("second"));
  const client = clientOf([await closedAddress(), gateway.address]);
  assert.equal(await nameOf(client), "second");
  assert.equal(await nameOf(client), "second");
  const states = (await client.health()).map(({ state, resting }) => [state, resting]);
  assert.deepEqual(states, [
    ["unreachable", true],
    ["unreachable", false],
  ]);
  client.close();
  await gateway.stop();
});

test("a gateway that serves says so", async () => {
  const gateway = await fakeGateway((router) => router.service(Health, { check: () => ({ status: 1 }) }));
  const client = clientOf([gateway.address]);
  assert.deepEqual(await client.health(), [{ address: gateway.address, state: "serving", resting: false }]);
  client.close();
  await gateway.stop();
});

test("a gateway that is unavailable is tried again, and unreachable after the last try", async () => {
  const busy = () => refusal(Code.Unavailable, "STORE_SILENT", "the store does not answer");
  const refusals = [busy, busy];
  const gateway = await fakeGateway(cells("a", refusals));
  const client = clientOf([gateway.address], { retry: { attemptsMax: 3, backoffInitialMs: 1, backoffMaxMs: 1 } });
  assert.equal(await nameOf(client), "a");
  refusals.push(busy, busy, busy, busy);
  const error = await failure(client.cells.list());
  assert.ok(error.kind === "unreachable" && refusals.length === 1);
  assert.match(error.message, /attempts: 3\): the store does not answer/);
  client.close();
  await gateway.stop();
});

test("a change has one request id over all tries, and another one for each intent", async () => {
  const ids: string[] = [];
  const gateway = await fakeGateway((router) =>
    router.service(JobService, {
      scaleJob({ context, count }) {
        ids.push(context?.requestId ?? "");
        if (ids.length < 3) throw refusal(Code.Unavailable, "", "later");
        return { job: { name: "web", count } };
      },
    }),
  );
  const client = clientOf([gateway.address]);
  assert.equal((await client.jobs.scale("web", 3)).count, 3);
  assert.equal(new Set(ids).size, 1);
  assert.match(ids[0] ?? "", /^[0-9a-f]{32}$/);
  await client.jobs.scale("web", 4);
  assert.notEqual(ids[3], ids[0]);
  const own = "0123456789abcdef0123456789abcdef";
  await client.jobs.scale("web", 5, { requestId: own });
  assert.equal(ids[4], own);
  assert.equal((await failure(client.jobs.scale("web", 5, { requestId: "mine" }))).kind, "invalid");
  client.close();
  await gateway.stop();
});

test("the retry time of a gateway is obeyed, and does not count as a failure", async () => {
  const busy = () => refusal(Code.ResourceExhausted, "OVERLOADED", "too much to do", 40);
  const gateway = await fakeGateway(
    cells(
      "a",
      Array.from({ length: 8 }, () => busy),
    ),
  );
  const client = clientOf([gateway.address], { retry: { attemptsMax: 2, backoffInitialMs: 1, backoffMaxMs: 1 } });
  const begun = performance.now();
  assert.equal(await nameOf(client), "a");
  assert.ok(performance.now() - begun >= 8 * 40, "it came back early");
  client.close();
  await gateway.stop();
});

test("a gateway that asks for more time than is left is the reason of the failure", async () => {
  const busy = () => refusal(Code.ResourceExhausted, "OVERLOADED", "too much to do", 900);
  const gateway = await fakeGateway(cells("a", [busy]));
  const client = clientOf([gateway.address], { deadlineMs: 300 });
  const error = await failure(client.cells.list());
  assert.ok(error.kind === "refused" && "reason" in error);
  assert.deepEqual([error.reason, "retryAfterMs" in error && error.retryAfterMs], ["OVERLOADED", 900]);
  client.close();
  await gateway.stop();
});

test("a refusal has its details, and is not tried again", async () => {
  const refuse = () => refusal(Code.FailedPrecondition, "JOB_CHANGED", "the job has changed");
  const gateway = await fakeGateway(cells("a", [refuse]));
  const client = clientOf([gateway.address]);
  const error = await failure(client.cells.list());
  assert.deepEqual(
    { ...error, cause: undefined, name: undefined },
    {
      ...{ name: undefined, cause: undefined, kind: "refused", code: "FAILED_PRECONDITION", reason: "JOB_CHANGED" },
      ...{ metadata: { node: "n1" }, fields: [], preconditions: [] },
    },
  );
  assert.equal(error.message, "the job has changed");
  client.close();
  await gateway.stop();
});

test("a refused token says where it is from", async () => {
  const refuse = () => refusal(Code.Unauthenticated, "TOKEN_REFUSED", "it has expired");
  const gateway = await fakeGateway(cells("a", [refuse, refuse]));
  const error = await failure(clientOf([gateway.address], { token: "secret" }).cells.list());
  assert.equal(error.kind, "token_refused");
  assert.match(error.message, /does not accept the token of the caller: it has expired/);
  assert.doesNotMatch(error.message, /secret/);
  assert.match((await failure(clientOf([gateway.address]).cells.list())).message, /needs a token/);
  await gateway.stop();
});

test("a deadline is over all tries, and says whether the call may have changed something", async () => {
  const server = await silentServer();
  const client = clientOf([server.address], { deadlineMs: 150 });
  const read = await failure(client.cells.list());
  assert.ok(read.kind === "deadline" && "changes" in read);
  assert.deepEqual([read.changes, "method" in read && read.method], [false, "ListCells"]);
  const change = await failure(client.jobs.stop("web"));
  assert.ok(change.kind === "deadline" && "changes" in change && change.changes);
  const own = await failure(client.cells.list({ deadlineMs: 20 }));
  assert.match(own.message, /within 0.02 s/);
  client.close();
  server.stop();
});

test("a gateway that is silent costs a call a part of its deadline, and not the call", async () => {
  const [server, gateway] = [await silentServer(), await fakeGateway(cells("second"))];
  const client = clientOf([server.address, gateway.address], { deadlineMs: 3_000 });
  assert.equal(await nameOf(client), "second");
  client.close();
  server.stop();
  await gateway.stop();
});

test("nobody listens: unreachable, and nothing was changed", async () => {
  const address = await closedAddress();
  const client = clientOf([address]);
  const error = await failure(client.jobs.stop("web"));
  assert.ok(error.kind === "unreachable" && "attempts" in error && "changes" in error);
  assert.match(error.message, /\(attempts: \d+\): connect ECONNREFUSED 127\.0\.0\.1/);
  assert.deepEqual([error.attempts, error.changes], [6, false]);
});

test("a web server is no gateway", async () => {
  const server = createServer((_request, response) => response.end("<html>"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const error = await failure(clientOf([`127.0.0.1:${port}`]).cells.list());
  assert.equal(error.kind, "not_gateway", error.message);
  server.closeAllConnections();
  server.close();
});

test("a gateway that does not encrypt is recognized", async () => {
  const gateway = await fakeGateway(() => {});
  const client = clientOf([`https://${gateway.address}`]);
  const error = await failure(client.cells.list());
  assert.match(error.message, /is no gateway that encrypts/);
  assert.equal(error.kind, "not_gateway");
  client.close();
  await gateway.stop();
});

test("a caller cancels a call, before it and during it", async () => {
  const server = await silentServer();
  const client = clientOf([server.address]);
  const gone = await failure(client.cells.list({ signal: AbortSignal.abort("gone") }));
  assert.deepEqual([gone.kind, gone.name, gone.cause], ["cancelled", "AbortError", "gone"]);
  const during = failure(client.cells.list({ signal: AbortSignal.timeout(30) }));
  assert.equal((await during).kind, "cancelled");
  client.close();
  server.stop();
});

test("a client that is closed ends what goes on, and begins nothing", async () => {
  const server = await silentServer();
  const client = clientOf([server.address], { watchPatienceMs: 60_000 });
  const going = [failure(client.cells.list()), failure(client.names.watch("web").next())];
  const other = client.with({ cell: "beta" });
  setTimeout(() => other.close(), 30);
  for (const each of going) assert.equal((await each).kind, "closed");
  for (const later of [client.cells.list(), client.names.watch("web").next(), client.tasks.exec("web/0", ["true"])]) {
    assert.equal((await failure(later)).kind, "closed");
  }
  await assert.rejects(client.health(), { kind: "closed" });
  server.stop();
});

test("no text of a client shows its token", () => {
  const client = clientOf(["127.0.0.1:1"], { token: "secret" });
  assert.doesNotMatch(inspect(client, { depth: 9, showHidden: true }), /secret/);
  assert.doesNotMatch(JSON.stringify(client), /secret/);
});

test("a connection that is cut in a call is made again", async () => {
  let calls = 0;
  const gateway = await fakeGateway((router) =>
    router.service(CellService, {
      async listCells() {
        calls += 1;
        if (calls === 1) {
          gateway.cut();
          await new Promise(() => {});
        }
        return { cells: [{ name: "a" }] };
      },
    }),
  );
  const client = clientOf([gateway.address]);
  assert.equal(await nameOf(client), "a");
  assert.equal(calls, 2);
  client.close();
  await gateway.stop();
});

test("a list goes over all pages, and asks only for those that are read", async () => {
  const pages: string[] = [];
  const gateway = await fakeGateway((router) =>
    router.service(JobService, {
      listJobs({ page }) {
        pages.push(page?.page ?? "");
        const at = pages.length;
        // A page may be empty, and not the last.
        if (at === 2) return { jobs: [], nextPage: "p2" };
        return { jobs: [{ name: `j${at}` }, { name: `k${at}` }], nextPage: at < 3 ? `p${at}` : "" };
      },
    }),
  );
  const client = clientOf([gateway.address]);
  assert.deepEqual(
    (await listOf(client.jobs.list())).map(({ name }) => name),
    ["j1", "k1", "j3", "k3"],
  );
  assert.deepEqual(pages, ["", "p1", "p2"]);
  pages.length = 0;
  for await (const _ of client.jobs.list()) break;
  assert.deepEqual(pages, [""]);
  client.close();
  await gateway.stop();
});

test("fields and values of a newer gateway break nothing", async () => {
  const gateway = await fakeGateway((router) =>
    router.service(JobService, {
      getJob: () => ({
        job: { name: "web", state: 99 as JobState, $unknown: [{ no: 9_999, wireType: 0, data: new Uint8Array([1]) }] },
        spec: { kind: 77 as JobKind },
      }),
    }),
  );
  const client = clientOf([gateway.address]);
  const { job, spec } = await client.jobs.get("web");
  assert.deepEqual([job.state, spec.kind], [99, 77]);
  client.close();
  await gateway.stop();
});

test("an answer without its field is of another version", async () => {
  const gateway = await fakeGateway((router) => router.service(JobService, { getJob: () => ({}) }));
  const client = clientOf([gateway.address]);
  assert.equal((await failure(client.jobs.get("web"))).kind, "incomplete");
  client.close();
  await gateway.stop();
});

test("bad input is refused before anything is sent", async () => {
  const options = { gateways: "127.0.0.1:1", user: "ada", cell: "alpha" };
  const client = new Client(options);
  const wrong: [() => unknown, string][] = [
    [() => new Client({ ...options, gateways: [] }), "gateways"],
    [() => new Client({ ...options, user: "Ada" }), "user"],
    [() => new Client({ ...options, cell: "" }), "cell"],
    [() => new Client({ ...options, token: "two words" }), "token"],
    [() => new Client({ ...options, token: { file: "/nowhere" } }), "token"],
    [() => new Client({ ...options, deadlineMs: 0 }), "deadlineMs"],
    [() => new Client({ ...options, tls: { certificate: "x" } }), "tls"],
    [() => client.jobs.get("a/b/c"), "job"],
    [() => client.jobs.get("Web"), "job"],
    [() => client.tasks.stop("web"), "task"],
    [() => client.tasks.stop({ job: "web", index: -1 }), "index"],
    [() => client.jobs.scale("web", -1), "count"],
    [() => client.jobs.scale("web", 2.5), "count"],
    [() => client.jobs.scale("web", "3" as unknown as number), "count"],
    [() => client.jobs.scale("web", 2 ** 32), "count"],
    [() => client.jobs.rollout("web", "undo", { version: -1 }), "version"],
    [() => client.jobs.list({}, { pageSize: 2_000 }).next(), "pageSize"],
    [() => client.jobs.submit({ name: "web", task: { command: [] } }), "task.command"],
    [() => client.tasks.exec("web/0", []), "command"],
  ];
  for (const [call, field] of wrong) {
    const refused = (error: unknown) => error instanceof InvalidError && error.fields[0]?.field === field;
    await assert.rejects(async () => call(), refused, field);
  }
  const count = { message: "count: 2.5; accepted: a whole number from 0 to 4294967295" };
  await assert.rejects(client.jobs.scale("web", 2.5), count);
});
