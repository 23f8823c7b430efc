import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code, type Transport } from "@connectrpc/connect";
import fc from "fast-check";
import { Calls, Failed, type OpenStream } from "../src/calls.js";
import { type Cursor, CursorSchema } from "../src/gen/borough/v1/common_pb.js";
import { GatewayPool } from "../src/pool.js";
import { failureOf } from "../src/refusal.js";
import { type Feed, type Followed, WatchFollower } from "../src/watch/follow.js";
import { gatewayError } from "./statuses.js";

/** The journal of a model of a cell: values of keys, set or removed by commits of several changes. */
interface Change {
  readonly key: number;
  /** Absent: it is removed. */
  readonly value?: number | undefined;
}
interface Message {
  readonly cursor: Cursor;
  readonly more: boolean;
  readonly change?: Change;
}

function cursor(stamp: number): Cursor {
  const stampBytes = new Uint8Array(10);
  new DataView(stampBytes.buffer).setUint32(6, stamp);
  return create(CursorSchema, { storeEpoch: 7n, stamp: stampBytes });
}

function stampOf({ stamp }: Cursor): number {
  return new DataView(stamp.buffer, stamp.byteOffset).getUint32(6);
}

function stateAt(commits: readonly (readonly Change[])[], stamp: number): Map<number, number> {
  const state = new Map<number, number>();
  for (const { key, value } of commits.slice(0, stamp).flat()) {
    if (value === undefined) state.delete(key);
    else state.set(key, value);
  }
  return state;
}

/** What a gateway sends that knows the commits up to `known`, from a cursor or with a snapshot. */
function sent(commits: readonly (readonly Change[])[], known: number, resume: Cursor | undefined): Message[] {
  if (resume === undefined) {
    const snapshot = [...stateAt(commits, known)].map(([key, value]) => ({
      cursor: cursor(known),
      more: true,
      change: { key, value },
    }));
    return [...snapshot, { cursor: cursor(known), more: false }];
  }
  const from = stampOf(resume);
  return commits
    .slice(from, known)
    .flatMap((commit, at) =>
      commit.map((change, place) => ({ cursor: cursor(from + at + 1), more: place < commit.length - 1, change })),
    );
}

/** How one stream ends: after so many messages, by a cut or with a refusal of the cursor. */
interface Fault {
  readonly after: number;
  readonly kind: "cut" | "trim" | "refuse" | "end";
  /** How many commits the gateway lacks. */
  readonly behind: number;
}

function callsOf(): Calls {
  return new Calls({
    pool: new GatewayPool([{ address: "g", transport: {} as Transport }]),
    token: undefined,
    deadlineMs: 1_000,
    tryMs: Number.POSITIVE_INFINITY,
    retry: { attemptsMax: 6, backoffInitialMs: 0, backoffMaxMs: 0 },
    patienceMs: Number.POSITIVE_INFINITY,
    random: () => 0,
  });
}

function feedOf(commits: readonly (readonly Change[])[], faults: Fault[], end: AbortController): Feed<Message> {
  return {
    method: "Watch",
    async open(resume): Promise<OpenStream<Message>> {
      const fault = faults.shift();
      if (fault?.kind === "refuse") throw new Failed(failureOf(gatewayError(Code.Unavailable)));
      if (fault?.kind === "trim" && resume) throw new Failed(failureOf(gatewayError(Code.OutOfRange)));
      const known = Math.max(commits.length - (fault?.behind ?? 0), resume ? stampOf(resume) : 0);
      const all = sent(commits, known, resume);
      async function* messages(): AsyncGenerator<Message> {
        yield* fault ? all.slice(0, fault.after) : all;
        if (fault?.kind === "end") return;
        if (fault) throw new Failed(failureOf(gatewayError(Code.Unavailable)));
        yield { cursor: cursor(commits.length), more: false };
        end.abort();
      }
      return { messages: messages(), close() {} };
    },
    cursor: (message) => message.cursor,
    isFollowed: (message) => message.more,
    isChange: (message) => message.change !== undefined,
  };
}

const commit = fc.array(fc.record({ key: fc.nat(4), value: fc.option(fc.nat(99), { nil: undefined }) }), {
  minLength: 1,
  maxLength: 4,
});
const fault = fc.record({
  after: fc.nat(8),
  kind: fc.constantFrom<Fault["kind"]>("cut", "trim", "refuse", "end"),
  behind: fc.nat(3),
});

test("a watch from a cursor yields every change once, over cuts and refusals", async () => {
  const cuts = fc.array(
    fault.filter(({ kind }) => kind !== "trim"),
    { maxLength: 10 },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(commit, { maxLength: 12 }), cuts, async (commits, faults) => {
      const end = new AbortController();
      const follower = new WatchFollower(callsOf(), feedOf(commits, [...faults], end), cursor(0));
      const seen: Change[] = [];
      for await (const item of follower.items(end.signal)) {
        if (item.type === "change" && item.message.change) seen.push(item.message.change);
        assert.notEqual(item.type, "trimmed");
        // Who stores a cursor and goes on from it later misses nothing.
        const isPlace = item.type === "change" || item.type === "bookmark";
        if (isPlace && item.cursor) assert.deepEqual(seen, commits.slice(0, stampOf(item.cursor)).flat());
      }
      assert.deepEqual(seen, commits.flat());
    }),
    { numRuns: 300 },
  );
});

test("a watch with a snapshot ends in the state of the cell, and its cursors never go back", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(commit, { maxLength: 12 }),
      fc.array(fault, { maxLength: 10 }),
      async (commits, faults) => {
        const end = new AbortController();
        const follower = new WatchFollower(callsOf(), feedOf(commits, [...faults], end), undefined);
        let state = new Map<number, number>();
        let snapshot: Map<number, number> | undefined = new Map();
        let last = 0;
        for await (const item of follower.items(end.signal) as AsyncGenerator<Followed<Message>>) {
          if (item.type === "snapshot_void" || item.type === "trimmed") snapshot = new Map();
          if (item.type === "change" && item.message.change) {
            const { key, value } = item.message.change;
            const into: Map<number, number> = snapshot ?? state;
            if (value === undefined) into.delete(key);
            else into.set(key, value);
          }
          if (item.type === "bookmark" && snapshot) {
            state = snapshot;
            snapshot = undefined;
          }
          if (snapshot === undefined && (item.type === "bookmark" || item.type === "change") && item.cursor) {
            assert.ok(stampOf(item.cursor) >= last, "a cursor went back");
            last = stampOf(item.cursor);
          }
        }
        const sorted = (map: Map<number, number>) => [...map].sort(([one], [other]) => one - other);
        assert.deepEqual(sorted(state), sorted(stateAt(commits, commits.length)));
      },
    ),
    { numRuns: 300 },
  );
});

test("a refusal ends a watch with its error", async () => {
  const feed = feedOf([], [], new AbortController());
  const refused: Feed<Message> = {
    ...feed,
    open: () => Promise.reject(new Failed(failureOf(gatewayError(Code.PermissionDenied, "ACCESS_REFUSED")))),
  };
  const follower = new WatchFollower(callsOf(), refused, cursor(0));
  await assert.rejects(follower.items(new AbortController().signal).next(), {
    kind: "refused",
    reason: "ACCESS_REFUSED",
  });
});

test("changes that this version does not know are skipped, with their place in the order", async () => {
  const end = new AbortController();
  const messages: Message[] = [
    { cursor: cursor(1), more: true },
    { cursor: cursor(1), more: false, change: { key: 1, value: 1 } },
    { cursor: cursor(2), more: false },
  ];
  const feed: Feed<Message> = {
    ...feedOf([], [], end),
    async open() {
      async function* stream() {
        yield* messages;
        end.abort();
      }
      return { messages: stream(), close() {} };
    },
  };
  const types: string[] = [];
  for await (const item of new WatchFollower(callsOf(), feed, cursor(0)).items(end.signal)) types.push(item.type);
  assert.deepEqual(types, ["change", "bookmark"]);
});

test("the reader is notified once that no gateway answers, and that one does again", async () => {
  const end = new AbortController();
  let failing = true;
  const feed: Feed<Message> = {
    ...feedOf([], [], end),
    async open() {
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (failing) throw new Failed(failureOf(gatewayError(Code.Unavailable, "", undefined, "no store")));
      const silent = { next: () => new Promise<IteratorResult<Message>>(() => {}) };
      return { messages: silent, close() {} };
    },
  };
  const items: Followed<Message>[] = [];
  for await (const item of new WatchFollower(callsOf(), feed, cursor(3)).items(end.signal)) {
    items.push(item);
    failing = false;
    if (item.type === "bookmark") break;
  }
  const [absent, bookmark] = items;
  assert.equal(items.length, 2);
  assert.ok(absent?.type === "absent" && absent.error.kind === "unreachable");
  assert.match(absent.error.message, /no store/);
  assert.ok(bookmark?.type === "bookmark" && stampOf(bookmark.cursor) === 3);
});
