import assert from "node:assert/strict";
import { test } from "node:test";
import type { Transport } from "@connectrpc/connect";
import { gatewayUrl } from "../src/address.js";
import { InvalidError } from "../src/errors.js";
import { GatewayPool } from "../src/pool.js";

function poolOf(count: number) {
  const clock = { now: 0 };
  const gateways = Array.from({ length: count }, (_, at) => ({ address: `g${at}`, transport: {} as Transport }));
  return { clock, pool: new GatewayPool(gateways, () => clock.now) };
}

test("calls stay with a gateway until it fails, and it is then left for a while", () => {
  const { clock, pool } = poolOf(3);
  const first = pool.pick();
  assert.equal(pool.pick(), first);
  pool.failed(first);
  // Calls that failed together count once.
  pool.failed(first);
  assert.equal(first.failures, 1);
  const second = pool.pick();
  assert.equal(second.address, "g1");
  pool.failed(second);
  assert.equal(pool.pick().address, "g2");
  pool.failed(pool.pick());
  assert.equal(pool.pick().address, "g0", "all rest: the one whose rest ends first");
  clock.now = 1_500;
  assert.equal(pool.pick().address, "g0");
  pool.answered(pool.pick());
  assert.equal(first.failures, 0);
});

test("a gateway that fails again and again is left for longer, up to a bound", () => {
  const { clock, pool } = poolOf(2);
  const [bad] = pool.gateways;
  assert.ok(bad);
  const rests = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].map(() => {
    clock.now = bad.restUntil;
    pool.failed(bad);
    return bad.restUntil - clock.now;
  });
  assert.deepEqual(rests, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

test("tries alternate while every gateway rests", () => {
  const { pool } = poolOf(2);
  const picked = Array.from({ length: 6 }, () => {
    const gateway = pool.pick();
    pool.failed(gateway);
    return gateway.address;
  });
  assert.equal(new Set(picked.slice(0, 2)).size, 2);
});

test("addresses are checked, and an error says which part is wrong", () => {
  assert.equal(gatewayUrl("127.0.0.1:7400", false), "http://127.0.0.1:7400");
  assert.equal(gatewayUrl("gate.example.org:7400", true), "https://gate.example.org:7400");
  assert.equal(gatewayUrl("https://[::1]:7400/", false), "https://[::1]:7400");
  const wrong: [string, boolean, RegExp][] = [
    ["", false, /is empty/],
    ["http://", false, /is empty/],
    ["localhost", false, /has no port/],
    ["[::1]", false, /has no port/],
    [":7400", false, /has no host/],
    ["h:", false, /has the port ""/],
    ["h:0", false, /has the port "0"/],
    ["h:65536", false, /has the port "65536"/],
    ["h:http", false, /has the port "http"/],
    ["h:1/x", false, /has the path "\/x"/],
    ["a b:1", false, /has the host "a b"/],
    ["ftp://h:1", false, /has the scheme "ftp"/],
    ["http://h:1", true, /certificates are given/],
  ];
  for (const [address, encrypted, says] of wrong) {
    assert.throws(
      () => gatewayUrl(address, encrypted),
      (error) => error instanceof InvalidError && says.test(error.message) && /accepted: HOST:PORT/.test(error.message),
      address,
    );
  }
});
