import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code, type HandlerContext } from "@connectrpc/connect";
import { CellService } from "../src/gen/borough/v1/cell_pb.js";
import { type Cursor, CursorSchema } from "../src/gen/borough/v1/common_pb.js";
import { NameService } from "../src/gen/borough/v1/name_pb.js";
import { type ReadLogsRequest, ReadLogsRequest_Stream, TaskService } from "../src/gen/borough/v1/task_pb.js";
import { WatchService } from "../src/gen/borough/v1/watch_pb.js";
import { type EndpointItem, type LogItem, listOf } from "../src/node.js";
import { clientOf, fakeGateway, refusal } from "./fake.js";

function cursor(stamp: number): Cursor {
  return create(CursorSchema, { storeEpoch: 1n, stamp: new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, stamp]) });
}

function ended({ signal }: HandlerContext): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
}

const later = () => refusal(Code.Unavailable, "", "later");

test("a watch of endpoints goes on over a break, a trim and an end", async () => {
  const resumed: (number | undefined)[] = [];
  const web = { user: "ada", job: "web" };
  const gateway = await fakeGateway((router) =>
    router.service(NameService, {
      async *watchEndpoints({ resume }, context) {
        resumed.push(resume?.stamp[9]);
        switch (resumed.length) {
          case 1:
            // A snapshot that breaks is never yielded.
            yield { event: { case: "published", value: { ...web, index: 9 } }, cursor: cursor(1), more: true };
            throw later();
          case 2:
            yield {
              event: { case: "published", value: { ...web, index: 0, incarnation: 1n } },
              cursor: cursor(2),
              more: true,
            };
            yield { event: { case: "bookmark", value: true }, cursor: cursor(2) };
            yield {
              event: { case: "published", value: { ...web, index: 1, incarnation: 2n } },
              cursor: cursor(3),
              more: true,
            };
            throw later();
          case 3:
            yield {
              event: { case: "published", value: { ...web, index: 1, incarnation: 2n } },
              cursor: cursor(3),
              more: true,
            };
            yield { event: { case: "withdrawn", value: { ...web, index: 0, incarnation: 1n } }, cursor: cursor(3) };
            return;
          case 4:
            throw refusal(Code.OutOfRange, "CURSOR_TRIMMED", "list again");
          default:
            yield {
              event: { case: "published", value: { ...web, index: 1, incarnation: 2n } },
              cursor: cursor(4),
              more: true,
            };
            yield { event: { case: "bookmark", value: true }, cursor: cursor(4) };
            await ended(context);
        }
      },
    }),
  );
  const client = clientOf([gateway.address]);
  const seen: string[] = [];
  const text = (item: EndpointItem) => {
    if (item.type === "snapshot") return `snapshot ${item.endpoints.map(({ index }) => index)}`;
    return item.type === "published" || item.type === "withdrawn" ? `${item.type} ${item.endpoint.index}` : item.type;
  };
  for await (const item of client.names.watch("web")) {
    seen.push(text(item));
    if (seen.filter((each) => each.startsWith("snapshot")).length === 2) break;
  }
  assert.deepEqual(seen, ["snapshot 0", "published 1", "withdrawn 0", "resync", "snapshot 1"]);
  assert.deepEqual(resumed, [undefined, undefined, 2, 3, undefined]);
  client.close();
  await gateway.stop();
});

test("a watch that waits ends at once when its caller cancels, without an error", async () => {
  let open = 0;
  const gateway = await fakeGateway((router) =>
    router.service(NameService, {
      async *watchEndpoints(_request, context) {
        open += 1;
        yield { event: { case: "bookmark", value: true }, cursor: cursor(1) };
        await ended(context);
        open -= 1;
      },
    }),
  );
  const client = clientOf([gateway.address]);
  const end = new AbortController();
  const items: string[] = [];
  const aborted = (async () => {
    for await (const { type } of client.names.watch("web", { signal: end.signal })) {
      items.push(type);
      setTimeout(() => end.abort(), 10);
    }
  })();
  await aborted;
  assert.deepEqual(items, ["snapshot"]);
  const watch = client.names.watch("web");
  await watch.next();
  const pending = watch.next();
  await watch.return?.();
  assert.equal((await pending).done, true);
  while (open > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  client.close();
  await gateway.stop();
});

test("a watch without patience gives up", async () => {
  const gateway = await fakeGateway(() => {});
  const client = clientOf([gateway.address], { watchPatienceMs: 50 });
  await gateway.stop();
  await assert.rejects(listOf(client.names.watch("web")), { kind: "unreachable" });
});

test("a watch of a cell begins at the present, and ends after a resync", async () => {
  const gateway = await fakeGateway((router) => {
    router.service(CellService, { getCell: () => ({ cell: { name: "alpha" }, cursor: cursor(5) }) });
    router.service(WatchService, {
      async *watch({ resume }) {
        assert.equal(resume?.stamp[9], 5);
        yield { cursor: cursor(6), change: { case: "job", value: { name: "web" } }, actor: "user/ada", atMs: 7n };
        throw refusal(Code.OutOfRange, "CURSOR_TRIMMED", "list again");
      },
    });
  });
  const client = clientOf([gateway.address]);
  const items = await listOf(client.watch({ jobs: true }));
  assert.deepEqual(
    items.map(({ type }) => type),
    ["change", "resync"],
  );
  const [first] = items;
  assert.ok(first?.type === "change" && first.change.what === "job" && first.at.getTime() === 7);
  client.close();
  await gateway.stop();
});

/** What an agent sends of a text in each stream, in parts of a few bytes, from where a request begins. */
async function* logOf(texts: readonly [string, string], request: ReadLogsRequest, breakAfter: number) {
  let parts = 0;
  const streams = [
    [ReadLogsRequest_Stream.STDOUT, texts[0], request.stdoutFrom],
    [ReadLogsRequest_Stream.STDERR, texts[1], request.stderrFrom],
  ] as const;
  for (const [stream, text, from] of streams) {
    const begin = Number(from?.offset ?? 0n);
    yield { stream, incarnation: 4n, next: { file: 0n, offset: BigInt(begin) } };
    for (let at = begin; at < text.length; at += 3) {
      if (parts === breakAfter) throw later();
      parts += 1;
      const data = new TextEncoder().encode(text.slice(at, at + 3));
      yield { stream, data, incarnation: 4n, next: { file: 0n, offset: BigInt(at + data.length) } };
    }
  }
  yield { end: true };
}

test("a log that breaks again and again loses no byte and repeats none", async () => {
  const texts = ["one two three four five", "an error"] as const;
  for (let breakAfter = 0; breakAfter < 9; breakAfter += 1) {
    const requests: ReadLogsRequest[] = [];
    const gateway = await fakeGateway((router) =>
      router.service(TaskService, {
        readLogs(request) {
          requests.push(request);
          return logOf(texts, request, requests.length > 5 ? 99 : breakAfter);
        },
      }),
    );
    const client = clientOf([gateway.address]);
    const read = { stdout: "", stderr: "" };
    for (const item of await listOf(client.tasks.logs("web/0"))) {
      if (item.type === "output") read[item.stream] += new TextDecoder().decode(item.data);
    }
    assert.deepEqual([read.stdout, read.stderr], texts, `broken after ${breakAfter}`);
    assert.ok(
      requests.slice(1).every(({ incarnation }) => incarnation === 4n),
      "it went to another attempt",
    );
    client.close();
    await gateway.stop();
  }
});

test("the reader of a log is notified of what it waits for, and that output is gone", async () => {
  let requests = 0;
  const gateway = await fakeGateway((router) =>
    router.service(TaskService, {
      async *readLogs() {
        requests += 1;
        if (requests < 3) throw refusal(Code.Unavailable, "NODE_SILENT", "node n1 does not answer");
        yield { goneBytes: 7n, stream: ReadLogsRequest_Stream.STDOUT, next: {} };
        yield { end: true };
      },
    }),
  );
  const client = clientOf([gateway.address]);
  const items = await listOf(client.tasks.logs("web/0", { follow: true }));
  const text = (item: LogItem) => (item.type === "waits" ? `waits for ${item.for}` : item.type);
  assert.deepEqual(items.map(text), ["waits for agent", "gone"]);
  requests = 0;
  await assert.rejects(listOf(client.tasks.logs("web/0")), { kind: "refused", reason: "NODE_SILENT" });
  client.close();
  await gateway.stop();
});

test("a command gets its input, and its output and end come back", async () => {
  let opened = 0;
  const gateway = await fakeGateway((router) =>
    router.service(TaskService, {
      async *exec(requests) {
        opened += 1;
        // Opens the stream, and is nothing that this version knows.
        yield {};
        let bytes = 0;
        for await (const { message } of requests) {
          if (message.case === "stdin") {
            bytes += message.value.length;
            assert.ok(message.value.length <= 32_768);
          }
          if (message.case === "stdinClosed") break;
        }
        yield { message: { case: "stdout", value: new TextEncoder().encode(`${bytes}`) } };
        yield { message: { case: "stderr", value: new TextEncoder().encode("no") } };
        yield { message: { case: "exit", value: { code: 3 } } };
      },
    }),
  );
  const client = clientOf([gateway.address]);
  const result = await client.tasks.run("web/0", ["wc", "-c"], { input: "x".repeat(100_000) });
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  assert.deepEqual([result.code, text(result.stdout), text(result.stderr)], [3, "100000", "no"]);
  assert.equal(opened, 1);
  client.close();
  await gateway.stop();
});

test("a command is never run twice", async () => {
  let opened = 0;
  const gateway = await fakeGateway((router) =>
    router.service(TaskService, {
      // biome-ignore lint/correctness/useYield: it fails before its first output
      async *exec() {
        opened += 1;
        throw later();
      },
    }),
  );
  const client = clientOf([gateway.address]);
  await assert.rejects(client.tasks.run("web/0", ["true"]), { kind: "unreachable" });
  assert.equal(opened, 1);
  client.close();
  await gateway.stop();
});

test("a caller leaves a command", async () => {
  const gateway = await fakeGateway((router) =>
    router.service(TaskService, {
      async *exec(_requests, context) {
        yield { message: { case: "stdout", value: new Uint8Array([1]) } };
        await ended(context);
      },
    }),
  );
  const client = clientOf([gateway.address]);
  const end = new AbortController();
  const session = await client.tasks.exec("web/0", ["sleep", "9"], { signal: end.signal });
  const read = listOf(session);
  setTimeout(() => end.abort(), 20);
  await assert.rejects(read, { kind: "cancelled" });
  await assert.rejects(session.exit, { kind: "cancelled" });
  client.close();
  await gateway.stop();
});

test("an input that fails ends its command, and is the reason", async () => {
  const gateway = await fakeGateway((router) =>
    router.service(TaskService, {
      async *exec(_requests, context) {
        yield {};
        await ended(context);
      },
    }),
  );
  const client = clientOf([gateway.address]);
  async function* input() {
    yield "one";
    throw new Error("the disk is gone");
  }
  await assert.rejects(client.tasks.run("web/0", ["cat"], { input: input() }), /the disk is gone/);
  const session = await client.tasks.exec("web/0", ["cat"]);
  setTimeout(() => session.close(), 10);
  await assert.rejects(listOf(session), { kind: "cancelled" });
  client.close();
  await gateway.stop();
});
