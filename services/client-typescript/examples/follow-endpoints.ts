/**
 * Follows the endpoints of a job, as a load balancer does, until Ctrl-C.
 *
 * After `services/client-typescript/package DIRECTORY`:
 *
 *     node ~/.cache/borough/client-typescript/build/dist/examples/follow-endpoints.js [NAME]
 */

import { connect } from "./connect.js";

const [name = "hello"] = process.argv.slice(2);
using client = connect();
const interrupted = new AbortController();
process.once("SIGINT", () => interrupted.abort());

for await (const item of client.names.watch(name, { signal: interrupted.signal })) {
  switch (item.type) {
    case "snapshot":
      console.log(`${item.endpoints.length} endpoints:`);
      for (const { name, host, ports } of item.endpoints) console.log(`  ${name}  ${host}:${ports[0]?.number ?? "-"}`);
      break;
    case "published":
      console.log(`+ ${item.endpoint.name}  ${item.endpoint.host}:${item.endpoint.ports[0]?.number ?? "-"}`);
      break;
    case "withdrawn":
      console.log(`- ${item.endpoint.index}.${item.endpoint.job}  (attempt ${item.endpoint.incarnation})`);
      break;
    case "absent":
      console.log(`what is known holds: ${item.error.message}`);
      break;
    case "resync":
      console.log(`a whole list follows: ${item.why}`);
      break;
    case "bookmark":
      // A program that stores this cursor goes on from here after its own restart.
      break;
  }
}
