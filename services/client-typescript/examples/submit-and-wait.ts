/**
 * Submits a web server, waits until it serves, shows where, and reads a line of its output.
 *
 * After `services/client-typescript/package DIRECTORY`:
 *
 *     node ~/.cache/borough/client-typescript/build/dist/examples/submit-and-wait.js [NAME]
 */

import { BoroughError, InvalidError, RefusedError } from "@borough/client";
import { connect } from "./connect.js";

const [name = "hello"] = process.argv.slice(2);
using client = connect();

try {
  const waited = await client.jobs.run(
    {
      name,
      count: 2,
      task: {
        command: ["python3", "-u", "-m", "http.server", "${PORT_HTTP}"],
        resources: { cpu: "100m", memory: "64MiB" },
        ports: ["http"],
        health: { http: { port: "http", path: "/" } },
      },
    },
    { timeout: "2m", onProgress: ({ text }) => console.log(text) },
  );
  console.log(`${waited.outcome}: ${waited.why}`);
  for (const { name, host, ports } of waited.endpoints) console.log(`  ${name}  http://${host}:${ports[0]?.number}/`);
  for (const { headline, summary } of waited.explanations) console.log(`  ${headline || summary}`);
  process.exitCode = waited.outcome === "healthy" ? 0 : 1;

  for await (const item of client.tasks.logs(`${name}/0`, { follow: true, signal: AbortSignal.timeout(30_000) })) {
    if (item.type !== "output") continue;
    console.log(`${item.stream}: ${new TextDecoder().decode(item.data).trimEnd()}`);
    break;
  }
} catch (error) {
  if (!(error instanceof BoroughError)) throw error;
  console.error(`error: ${error.message}`);
  if (error instanceof InvalidError || error instanceof RefusedError) {
    for (const { field } of error.fields) console.error(`  look at ${field}`);
  }
  process.exitCode = 1;
}
