/** What the suite gives to this runner. `tests/clients/README.md` describes it. */

import { Client as WebClient } from "../src/browser.js";
import { type BoroughClient, Client, type ClientOptions } from "../src/node.js";

/** Set: the scenarios use the client for browsers, on the gateway itself, since the proxy speaks HTTP/2 only. */
const isWeb = process.env.BOROUGH_SUITE_WEB !== undefined;

/** A scenario, a step, or a part of one: JSON. */
export type Json = { readonly [key: string]: unknown };

/** Where the scenarios take place. */
export interface World {
  readonly gateways: readonly string[];
  readonly direct: string;
  readonly token: string;
  readonly user: string;
  readonly cell: string;
  readonly control: string;
  readonly tls: { readonly gateway: string; readonly ca: string; readonly certificate: string; readonly key: string };
}

/** A client as `options` say; what they leave out is as the world says. */
export function clientOf(world: World, options: Json): BoroughClient {
  const client = connectedOf(world, options);
  return options.dry_run === true ? client.withDryRun() : client;
}

function connectedOf(world: World, options: Json): BoroughClient {
  const given = (options.gateways as readonly (number | string)[] | undefined) ?? world.gateways;
  const token = (options.token as string | undefined) ?? world.token;
  const common = {
    gateways: given.map((place) => (typeof place === "number" ? (world.gateways[place] ?? "") : place)),
    user: (options.user as string | undefined) ?? world.user,
    cell: (options.cell as string | undefined) ?? world.cell,
    ...(options.deadline !== undefined && { deadlineMs: options.deadline as number }),
    ...(options.attempts !== undefined && { retry: { attemptsMax: options.attempts as number } }),
  } satisfies ClientOptions;
  if (isWeb) {
    const gateways = options.gateways === undefined ? [world.direct] : common.gateways;
    return new WebClient({ ...common, gateways, ...(token !== "none" && { token }) });
  }
  if (options.tls !== true) return new Client({ ...common, ...(token !== "none" && { token }) });
  const { gateway, ca, certificate, key } = world.tls;
  const tls = { ca: { file: ca }, certificate: { file: certificate }, key: { file: key } };
  return new Client({ ...common, gateways: [gateway], tls });
}

/** Gives an order to the proxy. */
export async function fault(world: World, order: Json): Promise<void> {
  const answer = await fetch(`${world.control}/fault`, { method: "POST", body: JSON.stringify(order) });
  if (!answer.ok) throw new Error(await answer.text());
}
