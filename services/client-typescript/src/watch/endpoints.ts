/** The watch of endpoints, for load balancers and for callers that wait for one. */

import { create } from "@bufbuild/protobuf";
import { type Calls, once } from "../calls.js";
import type { Cursor, RequestContext } from "../gen/borough/v1/common_pb.js";
import {
  type Endpoint,
  type EndpointWithdrawn,
  NameService,
  WatchEndpointsRequestSchema,
  type WatchEndpointsResponse,
} from "../gen/borough/v1/name_pb.js";
import type { GatewayAbsence } from "../outage.js";
import { type Feed, WatchFollower } from "./follow.js";

/** An item of the watch of endpoints. */
export type EndpointItem =
  /** Every present endpoint: replaces whatever was known before. A watch from the cursor continues the snapshot. */
  | { readonly type: "snapshot"; readonly endpoints: readonly Endpoint[]; readonly cursor: Cursor }
  /** A new or changed endpoint. Without a cursor, more changes of the same commit follow. */
  | { readonly type: "published"; readonly endpoint: Endpoint; readonly cursor?: Cursor }
  /**
   * An endpoint is gone. Its incarnation never comes back. Without a cursor, more changes of the same commit follow.
   */
  | { readonly type: "withdrawn"; readonly endpoint: EndpointWithdrawn; readonly cursor?: Cursor }
  /** All changes up to the cursor were yielded. A watch from here misses nothing. */
  | { readonly type: "bookmark"; readonly cursor: Cursor }
  /** No gateway answers. The watch goes on by itself. The endpoints of before may be used meanwhile. */
  | ({ readonly type: "absent" } & GatewayAbsence)
  /** The gateway cannot resume this watch, and says why. A snapshot follows. */
  | { readonly type: "resync"; readonly why: string };

/** What a watch of endpoints covers. */
export interface EndpointScope {
  readonly context: RequestContext;
  readonly cell: string;
  readonly user: string;
  /** Empty: every job of the user. */
  readonly job: string;
}

/** Yields a snapshot (unless `resume` is given), then every change, in order, without gaps or repetition. */
export async function* endpointItems(
  calls: Calls,
  scope: EndpointScope,
  resume: Cursor | undefined,
  signal: AbortSignal,
): AsyncGenerator<EndpointItem, void> {
  // The endpoints of an incomplete snapshot. One that breaks is never yielded.
  let snapshot: Map<string, Endpoint> | undefined = resume ? undefined : new Map();
  for await (const item of new WatchFollower(calls, endpointFeed(calls, scope), resume).items(signal)) {
    switch (item.type) {
      case "snapshot_void":
        snapshot = new Map();
        break;
      case "trimmed":
        snapshot = new Map();
        yield { type: "resync", why: item.why };
        break;
      case "bookmark":
        if (snapshot) yield { type: "snapshot", endpoints: [...snapshot.values()], cursor: item.cursor };
        else yield item;
        snapshot = undefined;
        break;
      case "change": {
        const { case: kind, value } = item.message.event;
        const at = item.cursor && { cursor: item.cursor };
        if (kind === "published" && snapshot) snapshot.set(keyOf(value), value);
        else if (kind === "published") yield { type: "published", endpoint: value, ...at };
        else if (kind === "withdrawn" && snapshot) snapshot.delete(keyOf(value));
        else if (kind === "withdrawn") yield { type: "withdrawn", endpoint: value, ...at };
        break;
      }
      default:
        yield item;
    }
  }
}

/** The task of an endpoint. */
export function keyOf({ user, job, index }: Endpoint | EndpointWithdrawn): string {
  return `${user}/${job}/${index}`;
}

function endpointFeed(calls: Calls, scope: EndpointScope): Feed<WatchEndpointsResponse> {
  const method = NameService.method.watchEndpoints;
  return {
    method: method.name,
    open: (resume, signal, mostMs) => {
      const request = create(WatchEndpointsRequestSchema, { ...scope, ...(resume && { resume }) });
      return calls.streamOnce(method, once(request), signal, mostMs);
    },
    cursor: (message) => message.cursor,
    isFollowed: (message) => message.more,
    isChange: ({ event }) => event.case === "published" || event.case === "withdrawn",
  };
}
