import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";
import { CursorSchema } from "../src/gen/borough/v1/common_pb.js";
import {
  EndpointSchema,
  EndpointWithdrawnSchema,
  NameService,
  type WatchEndpointsResponseSchema,
} from "../src/gen/borough/v1/name_pb.js";
import { parseTarget, registerResolver } from "../src/grpc-js.js";
import type { EndpointItem } from "../src/node.js";
import { addressItems } from "../src/resolve.js";
import { peers } from "../src/task/index.js";
import { clientOf, fakeGateway } from "./fake.js";

const cursor = create(CursorSchema, { storeEpoch: 1n, stamp: new Uint8Array(10) });

test("targets name a job, and perhaps a port", () => {
  assert.deepEqual(parseTarget("web.ada.alpha?port=grpc"), { job: "web", user: "ada", cell: "alpha", port: "grpc" });
  assert.deepEqual(parseTarget("web.ada.alpha"), { job: "web", user: "ada", cell: "alpha" });
  for (const bad of [
    "",
    "web",
    "web.ada",
    "web.ada.alpha.x",
    "Web.ada.alpha",
    "web.ada.alpha?port=",
    "web.ada.alpha?port=1",
  ]) {
    assert.throws(() => parseTarget(bad), { kind: "invalid" }, bad);
  }
});

/** A server of gRPC that answers with its name. */
async function echoServer(name: string): Promise<{ port: number; stop(): void }> {
  const server = new grpc.Server();
  server.register(
    "/test.Echo/Name",
    (_call: unknown, answer: grpc.sendUnaryData<string>) => answer(null, name),
    (text: string) => Buffer.from(text),
    (bytes: Buffer) => bytes.toString(),
    "unary",
  );
  const port = await new Promise<number>((resolve, reject) => {
    const bound = (error: Error | null, number: number) => (error ? reject(error) : resolve(number));
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), bound);
  });
  return { port, stop: () => server.forceShutdown() };
}

test("channels of @grpc/grpc-js balance over a job, and follow its endpoints", async () => {
  const servers = await Promise.all(["a", "b"].map(echoServer));
  const endpoint = (index: number) => ({
    ...{ user: "ada", job: "web", index, incarnation: BigInt(index + 1), host: "127.0.0.1" },
    ports: [
      { name: "admin", number: 1 },
      { name: "grpc", number: servers[index]?.port ?? 0 },
    ],
  });
  type Change = MessageInitShape<typeof WatchEndpointsResponseSchema>;
  let change: (message: Change) => void = () => {};
  const gateway = await fakeGateway((router) =>
    router.service(NameService, {
      async *watchEndpoints({ cell, user, job }) {
        assert.deepEqual([cell, user, job], ["beta", "ada", "web"]);
        for (const index of [0, 1]) yield { event: { case: "published", value: endpoint(index) }, cursor, more: true };
        yield { event: { case: "bookmark", value: true }, cursor };
        for (;;) {
          yield await new Promise<Change>((resolve) => {
            change = resolve;
          });
        }
      },
    }),
  );
  const client = clientOf([gateway.address]);
  registerResolver(client);
  const channel = new grpc.Client("borough:///web.ada.beta?port=grpc", grpc.credentials.createInsecure());
  const call = () =>
    new Promise<string>((resolve, reject) => {
      channel.makeUnaryRequest(
        "/test.Echo/Name",
        (text: string) => Buffer.from(text),
        (bytes: Buffer) => bytes.toString(),
        "who",
        new grpc.Metadata({ waitForReady: true }),
        (error, name) => (error ? reject(error) : resolve(name ?? "")),
      );
    });
  const until = async (names: string) => {
    for (let seen = ""; seen !== names; ) {
      const answers = [await call(), await call(), await call(), await call()];
      seen = [...new Set(answers)].sort().join();
    }
  };
  await until("a,b");
  const later = create(CursorSchema, { storeEpoch: 1n, stamp: new Uint8Array(10).fill(1) });
  change({
    event: { case: "withdrawn", value: { user: "ada", job: "web", index: 0, incarnation: 1n } },
    cursor: later,
  });
  await until("b");
  channel.close();
  client.close();
  await gateway.stop();
  for (const server of servers) server.stop();
});

test("a list of addresses comes when it has changed, and for no other reason", async () => {
  const endpoint = (index: number, fields: object = {}) =>
    create(EndpointSchema, { job: "web", index, host: "h", ports: [{ name: "http", number: 80 + index }], ...fields });
  async function* items(): AsyncGenerator<EndpointItem> {
    yield { type: "snapshot", endpoints: [endpoint(1), endpoint(0), endpoint(2, { ports: [] })], cursor };
    yield { type: "published", endpoint: endpoint(1, { health: 3 }) };
    yield { type: "bookmark", cursor };
    yield { type: "published", endpoint: endpoint(1, { weight: 9 }) };
    yield { type: "withdrawn", endpoint: create(EndpointWithdrawnSchema, { job: "web", index: 0 }) };
    yield { type: "snapshot", endpoints: [], cursor };
  }
  const lists: string[] = [];
  for await (const list of addressItems(items(), "http")) {
    lists.push(list.map(({ port, weight }) => `${port}/${weight}`).join());
  }
  assert.deepEqual(lists, ["80/0,81/0", "80/0,81/9", "81/9", ""]);
});

test("a task follows its peers, without itself", async () => {
  const gateway = await fakeGateway((router) =>
    router.service(NameService, {
      async *watchEndpoints() {
        for (const index of [0, 1, 2]) {
          const value = { user: "ada", job: "web", index, host: `h${index}`, ports: [{ name: "http", number: 80 }] };
          yield { event: { case: "published", value }, cursor, more: true };
        }
        yield { event: { case: "bookmark", value: true }, cursor };
      },
    }),
  );
  const client = clientOf([gateway.address]);
  const task = { cell: "alpha", user: "ada", job: "web", index: 1, attempt: 1n, node: "n", host: "h", directory: "/" };
  for await (const list of peers(client, { task })) {
    assert.deepEqual(
      list.map(({ host, port }) => `${host}:${port}`),
      ["h0:80", "h2:80"],
    );
    break;
  }
  client.close();
  await gateway.stop();
});
