/** A page of somebody else: a bundler for browsers takes the entry for browsers. */

import { Client, UnsupportedError } from "@borough/client";

const client = new Client({ gateways: "https://gate.example.org:7400", user: "ada", cell: "alpha" });
client.tasks.exec("web/0", ["true"]).catch((error: unknown) => {
  if (!(error instanceof UnsupportedError)) throw error;
  console.log("the bundle for browsers works");
});
