/**
 * How the examples find their gateway: by the environment variables of the command line, or as `borough dev` has it.
 */

import { readFileSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { join } from "node:path";
import { Client } from "@borough/client";

/** A client of the cell that the environment names, or of the dev cell on this machine. */
export function connect(): Client {
  const { env } = process;
  const state = env.XDG_STATE_HOME ?? join(homedir(), ".local/state");
  const directory = env.BOROUGH_DIR ?? join(state, "borough/dev");
  return new Client({
    gateways: env.BOROUGH_GATEWAY ?? devGateways(directory),
    token: { file: env.BOROUGH_TOKEN_FILE ?? join(directory, "token") },
    user: env.BOROUGH_USER ?? userInfo().username,
    cell: env.BOROUGH_CELL ?? "alpha",
  });
}

function devGateways(directory: string): string[] {
  return (JSON.parse(readFileSync(join(directory, "client.json"), "utf8")) as { gateways: string[] }).gateways;
}
