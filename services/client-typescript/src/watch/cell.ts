/** The watch of all changes in a cell. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Calls, once } from "../calls.js";
import type { Cursor, RequestContext } from "../gen/borough/v1/common_pb.js";
import type { Job } from "../gen/borough/v1/job_pb.js";
import type { Endpoint, EndpointWithdrawn } from "../gen/borough/v1/name_pb.js";
import type { Node } from "../gen/borough/v1/node_pb.js";
import type { Task } from "../gen/borough/v1/task_pb.js";
import {
  type JobRemoved,
  type WatchFilterSchema,
  WatchRequestSchema,
  type WatchResponse,
  WatchService,
} from "../gen/borough/v1/watch_pb.js";
import type { GatewayAbsence } from "../outage.js";
import { type Feed, WatchFollower } from "./follow.js";

/** What has changed. */
export type CellChange =
  | { readonly what: "job"; readonly job: Job }
  | { readonly what: "task"; readonly task: Task }
  | { readonly what: "node"; readonly node: Node }
  | { readonly what: "endpoint_published"; readonly endpoint: Endpoint }
  | { readonly what: "endpoint_withdrawn"; readonly endpoint: EndpointWithdrawn }
  | { readonly what: "job_removed"; readonly job: JobRemoved }
  | { readonly what: "node_removed"; readonly name: string }
  | { readonly what: "member_changed"; readonly name: string }
  | { readonly what: "member_removed"; readonly name: string };

/** An item of the watch of a cell. */
export type CellItem =
  /** A change; each is yielded once, in order. */
  | {
      readonly type: "change";
      readonly change: CellChange;
      /** A watch from here misses nothing. Absent: more changes of the same commit follow. */
      readonly cursor?: Cursor;
      /** The user, node or role that caused it, such as `user/ada`. */
      readonly actor: string;
      /** The name of its action. */
      readonly action: string;
      /** Wall time of the writer. */
      readonly at: Date;
    }
  /** All matching changes up to the cursor were yielded. A watch from here misses nothing. */
  | { readonly type: "bookmark"; readonly cursor: Cursor }
  /** No gateway answers. The watch goes on by itself. */
  | ({ readonly type: "absent" } & GatewayAbsence)
  /** The gateway cannot resume this watch, and says why. It is the last item: list again, and watch from there. */
  | { readonly type: "resync"; readonly why: string };

/** Selects changes; an empty filter selects all. */
export type CellFilter = MessageInitShape<typeof WatchFilterSchema>;

/** Yields all matching changes after `resume`: in order, without gaps or repetition over broken connections. */
export async function* cellItems(
  calls: Calls,
  scope: { readonly context: RequestContext; readonly cell: string },
  filter: CellFilter,
  resume: Cursor,
  signal: AbortSignal,
): AsyncGenerator<CellItem, void> {
  const method = WatchService.method.watch;
  const feed: Feed<WatchResponse> = {
    method: method.name,
    open: (from, end, mostMs) => {
      const request = create(WatchRequestSchema, { ...scope, filter, ...(from && { resume: from }) });
      return calls.streamOnce(method, once(request), end, mostMs);
    },
    cursor: (message) => message.cursor,
    isFollowed: (message) => message.more,
    isChange: (message) => changeOf(message) !== undefined,
  };
  for await (const item of new WatchFollower(calls, feed, resume).items(signal)) {
    if (item.type === "change") {
      const change = changeOf(item.message);
      const { actor, action, atMs } = item.message;
      const at = new Date(Number(atMs));
      if (change) yield { type: "change", change, actor, action, at, ...(item.cursor && { cursor: item.cursor }) };
    } else if (item.type === "trimmed") {
      yield { type: "resync", why: item.why };
      return;
    } else if (item.type !== "snapshot_void") {
      // A watch with a cursor never has a snapshot.
      yield item;
    }
  }
}

/** The change of a message; absent for a bookmark, and for a change that this version does not know. */
function changeOf({ change: { case: kind, value } }: WatchResponse): CellChange | undefined {
  switch (kind) {
    case "job":
      return { what: "job", job: value };
    case "task":
      return { what: "task", task: value };
    case "node":
      return { what: "node", node: value };
    case "endpoint":
      return { what: "endpoint_published", endpoint: value };
    case "endpointWithdrawn":
      return { what: "endpoint_withdrawn", endpoint: value };
    case "jobRemoved":
      return { what: "job_removed", job: value };
    case "nodeRemoved":
      return { what: "node_removed", name: value };
    case "memberChanged":
      return { what: "member_changed", name: value };
    case "memberRemoved":
      return { what: "member_removed", name: value };
    default:
      return undefined;
  }
}
