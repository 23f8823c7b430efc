import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { build } from "esbuild";
import { Client } from "../src/browser.js";
import { CellService } from "../src/gen/borough/v1/cell_pb.js";
import { CursorSchema } from "../src/gen/borough/v1/common_pb.js";
import { NameService } from "../src/gen/borough/v1/name_pb.js";
import { fakeGateway, refusal, silentServer } from "./fake.js";

const cursor = create(CursorSchema, { storeEpoch: 1n, stamp: new Uint8Array(10) });

test("the client of browsers calls, watches and is refused over gRPC-Web", async () => {
  let lists = 0;
  const gateway = await fakeGateway(
    (router) => {
      router.service(CellService, {
        listCells(_request, { requestHeader }) {
          assert.equal(requestHeader.get("authorization"), "Bearer secret");
          lists += 1;
          if (lists === 1) throw refusal(Code.Unavailable, "", "later");
          if (lists === 3) throw refusal(Code.PermissionDenied, "ACCESS_REFUSED", "ada may not read");
          return { cells: [{ name: "alpha" }] };
        },
      });
      router.service(NameService, {
        async *watchEndpoints(_request, { signal }) {
          yield { event: { case: "published", value: { job: "web", index: 4 } }, cursor, more: true };
          yield { event: { case: "bookmark", value: true }, cursor };
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        },
      });
    },
    { web: true },
  );
  const gateways = [`http://${gateway.address}`];
  const client = new Client({ gateways, user: "ada", cell: "alpha", token: async () => "secret" });
  assert.equal((await client.cells.list())[0]?.name, "alpha");
  assert.equal(lists, 2, "it was tried again");
  await assert.rejects(client.cells.list(), { kind: "refused", code: "PERMISSION_DENIED", reason: "ACCESS_REFUSED" });
  for await (const item of client.names.watch("web")) {
    assert.ok(item.type === "snapshot" && item.endpoints[0]?.index === 4);
    break;
  }
  await assert.rejects(client.tasks.exec("web/0", ["true"]), { kind: "unsupported" });
  client.close();
  await gateway.stop();
});

test("a gateway that is silent costs a call of a browser a part of its deadline, and not the call", async () => {
  const listCells = () => ({ cells: [{ name: "alpha" }] });
  const gateway = await fakeGateway((router) => router.service(CellService, { listCells }), { web: true });
  const server = await silentServer();
  const gateways = [server.address, gateway.address];
  const client = new Client({ gateways, user: "ada", cell: "alpha", deadlineMs: 2_000 });
  assert.equal((await client.cells.list())[0]?.name, "alpha");
  client.close();
  server.stop();
  await gateway.stop();
});

test("the entry for browsers is bundled without anything of Node", async () => {
  const folder = await mkdtemp(join(tmpdir(), "borough-bundle-"));
  const outfile = join(folder, "bundle.js");
  const entry = new URL("../src/browser.js", import.meta.url).pathname;
  // A module of Node would be an error of the bundler.
  await build({ entryPoints: [entry], bundle: true, platform: "browser", format: "esm", outfile, logLevel: "silent" });
  assert.doesNotMatch(await readFile(outfile, "utf8"), /(from|require\()\s*["']node:/);
  const bundled = await import(outfile);
  assert.equal(typeof bundled.Client, "function");
  await rm(folder, { recursive: true });
});
