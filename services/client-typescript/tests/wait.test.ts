import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code, type ConnectRouter } from "@connectrpc/connect";
import { CursorSchema } from "../src/gen/borough/v1/common_pb.js";
import { JobKind, JobService, JobState } from "../src/gen/borough/v1/job_pb.js";
import { NameService } from "../src/gen/borough/v1/name_pb.js";
import { EndReason, Health, TaskService, TaskState } from "../src/gen/borough/v1/task_pb.js";
import { WatchService } from "../src/gen/borough/v1/watch_pb.js";
import { clientOf, fakeGateway, refusal } from "./fake.js";

const cursor = create(CursorSchema, { storeEpoch: 1n, stamp: new Uint8Array(10) });
const later = create(CursorSchema, { storeEpoch: 1n, stamp: new Uint8Array(10).fill(1) });
const job = {
  ...{ id: "j1", user: "ada", name: "web", count: 1, kind: JobKind.SERVICE, state: JobState.RUNNING, revision: 1n },
};
const healthy = { jobId: "j1", index: 0, state: TaskState.RUNNING, health: Health.HEALTHY, revision: 2n };
const failing = {
  ...{ jobId: "j1", user: "ada", job: "web", index: 0, state: TaskState.PENDING, failures: 2, incarnation: 3n },
  exit: { reason: EndReason.EXITED, code: 7, incarnation: 3n, helper: "migrate" },
};

/** A gateway that has the job, one task of it, and what a watch of it sends. */
function world(task: object | undefined, watch: (streams: number) => AsyncIterable<object>) {
  let streams = 0;
  let reads = 0;
  return (router: ConnectRouter) => {
    router.service(JobService, { getJob: () => ({ job, spec: { task: { ports: [{ name: "http" }] } }, cursor }) });
    router.service(TaskService, {
      listTasks: () => ({ tasks: task ? [task] : [] }),
      explainTask: () => ({ explanations: [{ summary: "no node fits" }] }),
      async *readLogs({ incarnation, helper }) {
        assert.deepEqual([incarnation, helper], [3n, "migrate"]);
        yield { data: new TextEncoder().encode("broken\n"), next: {}, end: true };
      },
    });
    router.service(WatchService, {
      watch: () => {
        streams += 1;
        return watch(streams);
      },
    });
    // Another transaction publishes an endpoint after its task is healthy.
    router.service(NameService, {
      listEndpoints: () => {
        reads += 1;
        return { endpoints: reads < 3 ? [] : [{ index: 0 }] };
      },
    });
  };
}

test("a wait lists again after a resync, and ends with the endpoints", async () => {
  const gateway = await fakeGateway(
    world(undefined, async function* (streams) {
      if (streams === 1) throw refusal(Code.OutOfRange, "CURSOR_TRIMMED", "list again");
      yield { cursor: later, change: { case: "task", value: healthy } };
    }),
  );
  const client = clientOf([gateway.address]);
  const texts: string[] = [];
  const waited = await client.jobs.wait("web", { onProgress: ({ text }) => texts.push(text) });
  assert.deepEqual([waited.outcome, waited.endpoints.length, waited.tasks.length], ["healthy", 1, 1]);
  assert.deepEqual(texts, ["ada/web: 0/1 healthy, 1 pending"]);
  client.close();
  await gateway.stop();
});

async function* quiet(): AsyncGenerator<object> {
  yield { cursor: later, change: { case: "bookmark", value: true } };
  await new Promise(() => {});
}

test("a wait that runs out says why, and what the failing task has written", async () => {
  const gateway = await fakeGateway(world(failing, quiet));
  const client = clientOf([gateway.address]);
  for (const limit of [{ timeout: "200ms" }, { progressDeadline: 200 }]) {
    const waited = await client.jobs.wait("web", limit);
    assert.equal(waited.outcome, "timeout");
    assert.match(waited.why, /1 pending, task 0 exited with code 7; .*; the job goes on/);
    assert.deepEqual([waited.output, waited.explanations[0]?.summary], ["broken\n", "no node fits"]);
  }
  client.close();
  await gateway.stop();
});

test("a caller cancels a wait", async () => {
  const gateway = await fakeGateway(world(failing, quiet));
  const client = clientOf([gateway.address]);
  await assert.rejects(client.jobs.wait("web", { signal: AbortSignal.timeout(50) }), { kind: "cancelled" });
  await assert.rejects(client.jobs.wait("web", { timeout: "soon" }), { kind: "invalid" });
  client.close();
  await gateway.stop();
});
