import assert from "node:assert/strict";
import { test } from "node:test";
import { CancelledError } from "../src/errors.js";
import { Outage } from "../src/outage.js";

test("an outage is reported once, and ends when patience does", () => {
  const outage = new Outage(1_000, 60_000);
  assert.equal(outage.step(1_000), undefined);
  assert.equal(outage.nextInMs(1_000), 3_000);
  assert.equal(outage.step(4_000), "report");
  assert.equal(outage.step(4_001), undefined);
  assert.equal(outage.absence(new CancelledError(), 4_000).givesUpInMs, 57_000);
  assert.equal(outage.step(61_000), "give_up");
  assert.equal(outage.step(62_000), "give_up");
});

test("without patience an outage never ends", () => {
  const outage = new Outage(0, Number.POSITIVE_INFINITY);
  assert.equal(outage.step(3_000), "report");
  assert.equal(outage.step(86_400_000), undefined);
  assert.equal("givesUpInMs" in outage.absence(new CancelledError(), 0), false);
});
