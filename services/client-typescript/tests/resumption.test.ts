import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import fc from "fast-check";
import { type Cursor, CursorSchema } from "../src/gen/borough/v1/common_pb.js";
import { Resumption } from "../src/watch/resumption.js";

function cursor(stamp: number, storeEpoch = 1n): Cursor {
  const bytes = new Uint8Array(10);
  bytes[9] = stamp;
  return create(CursorSchema, { storeEpoch, stamp: bytes });
}

/** What a gateway would send: a stamp, and the number of a change, or a bookmark. */
function logOf(entries: readonly number[]): { stamp: number; change?: number }[] {
  let number = 0;
  return entries.flatMap((entry, at) => {
    const changes = Array.from({ length: entry % 4 }, () => ({ stamp: at + 1, change: ++number }));
    return entry & 4 ? [...changes, { stamp: at + 1 }] : changes;
  });
}

test("however often a stream breaks, every change is delivered once and in order", () => {
  const entries = fc.array(fc.nat(7), { minLength: 1, maxLength: 20 });
  const breaks = fc.array(fc.nat(11), { maxLength: 12 });
  fc.assert(
    fc.property(entries, breaks, (entries, breaks) => {
      const log = logOf(entries);
      const resumption = new Resumption(cursor(0));
      const delivered: number[] = [];
      for (const limit of [...breaks, Number.POSITIVE_INFINITY]) {
        const from = resumption.reopened()?.stamp[9] ?? 0;
        for (const { stamp, change } of log.filter((sent) => sent.stamp > from).slice(0, limit)) {
          if (change === undefined) resumption.complete(cursor(stamp));
          else if (resumption.accept(cursor(stamp))) delivered.push(change);
        }
      }
      assert.deepEqual(
        delivered,
        log.flatMap(({ change }) => (change === undefined ? [] : [change])),
      );
    }),
    { numRuns: 500 },
  );
});

test("what is complete is not delivered again", () => {
  const resumption = new Resumption(cursor(5));
  assert.equal(resumption.accept(cursor(5)), false);
  assert.equal(resumption.accept(cursor(6)), true);
  resumption.complete(cursor(6));
  assert.deepEqual(resumption.reopened(), cursor(6));
  assert.equal(resumption.accept(cursor(6)), false);
  assert.equal(resumption.accept(cursor(7)), true);
});

test("a late bookmark does not go back", () => {
  const resumption = new Resumption(cursor(5));
  assert.equal(resumption.accept(cursor(7)), true);
  resumption.complete(cursor(6));
  assert.equal(resumption.accept(cursor(6)), false);
  assert.deepEqual(resumption.reopened(), cursor(5));
});

test("a snapshot starts again until it is complete", () => {
  const resumption = new Resumption();
  assert.equal(resumption.accept(cursor(3)), true);
  assert.equal(resumption.inSnapshot, true);
  assert.equal(resumption.reopened(), undefined);
  assert.equal(resumption.accept(cursor(3)), true);
  resumption.complete(cursor(3));
  assert.deepEqual(resumption.reopened(), cursor(3));
});

test("cursors of another epoch have no order", () => {
  const resumption = new Resumption(cursor(9, 1n));
  assert.equal(resumption.accept(cursor(2, 2n)), true);
});
