/** The calls about join tokens and keys of identities. */

import { IdentityKeyUse, type NodeJoin } from "../src/messages.js";
import { type BoroughClient, listOf } from "../src/node.js";
import type { Json } from "./world.js";

/** What the call of a step says of the join token of a node. */
export async function joinCall({ joins }: BoroughClient, step: Json): Promise<Json> {
  const node = step.node as string;
  const calls: Record<string, () => Promise<NodeJoin | undefined>> = {
    issue: async () =>
      (await joins.issue(node, step.lasts === undefined ? {} : { lastsMs: step.lasts as number })).join,
    list: async () => (await listOf(joins.list())).find((join) => join.node === node),
    revoke: () => joins.revoke(node),
    end: () => joins.revoke(node, { identity: true }),
  };
  const call = calls[step.call as string];
  if (!call) throw new Error(`no call ${step.call}`);
  const join = await call();
  return { open: join?.token !== undefined && join.token.usedMs === 0n };
}

/** What the call of a step says of the keys of identities. */
export async function keysCall({ access }: BoroughClient, step: Json): Promise<Json> {
  const calls: Record<string, () => ReturnType<typeof access.identityKeys>> = {
    list: () => access.identityKeys(),
    rotate: () => access.rotateIdentityKeys({ aheadMs: step.ahead as number }),
    withdraw: () => access.withdrawIdentityKeys(),
  };
  const call = calls[step.call as string];
  if (!call) throw new Error(`no call ${step.call}`);
  const keys = await call();
  return { count: keys.length, next: keys.some((key) => key.use === IdentityKeyUse.NEXT) };
}
