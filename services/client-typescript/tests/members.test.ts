import assert from "node:assert/strict";
import { test } from "node:test";
import { type ChangeMemberRequest, MemberHealth, MemberService } from "../src/gen/borough/v1/member_pb.js";
import { InvalidError } from "../src/node.js";
import { clientOf, fakeGateway } from "./fake.js";

const OWN = "0123456789abcdef0123456789abcdef";

test("member cells are read, join and leave", async () => {
  const got: unknown[] = [];
  const member = { cell: "eu1", health: MemberHealth.CURRENT, revision: 3n };
  const gateway = await fakeGateway((router) =>
    router.service(MemberService, {
      listMembers({ cell, selector }) {
        got.push(cell, ...selector.map(({ key, value, not }) => [key, value, not]));
        return { members: [member] };
      },
      getMember: ({ member: cell }) => ({ member: { ...member, cell } }),
      joinMember({ context, member: cell, gateways, labels }) {
        got.push([context?.requestId, cell, gateways, labels]);
        return { member };
      },
      removeMember: ({ member: cell }) => ({ member: { ...member, cell } }),
    }),
  );
  const client = clientOf([gateway.address], { cell: "federation" });
  const [found] = await client.members.list({ region: "eu", tier: { not: "test" } });
  assert.equal(found?.health, MemberHealth.CURRENT);
  assert.equal((await client.members.get("us1")).cell, "us1");
  await client.members.join("eu1", ["eu1:7400"], { labels: { region: "eu" }, requestId: OWN });
  assert.equal((await client.members.leave("us2")).cell, "us2");
  const joined = [OWN, "eu1", ["eu1:7400"], { region: "eu" }];
  assert.deepEqual(got, ["federation", ["region", "eu", false], ["tier", "test", true], joined]);
  client.close();
  await gateway.stop();
});

test("a change of a member cell says only what changes", async () => {
  const got: ChangeMemberRequest[] = [];
  const gateway = await fakeGateway((router) =>
    router.service(MemberService, {
      changeMember(request) {
        got.push(request);
        return { member: { cell: request.member } };
      },
    }),
  );
  const client = clientOf([gateway.address]);
  const { members } = client;
  await members.cordon("eu1", { expectedRevision: 3n });
  await members.uncordon("eu1");
  await members.drain("eu1");
  await members.label("eu1", { set: { tier: "prod" }, remove: ["zone"] });
  await members.setGateways("eu1", ["eu3:7400"]);
  await assert.rejects(members.setGateways("eu1", []), InvalidError);
  const sent = got.map(({ $typeName, context, cell, member, ...changed }) => changed);
  const none = { gateways: [], labels: {}, labelsRemoved: [], expectedRevision: 0n };
  assert.deepEqual(sent, [
    { ...none, cordoned: true, expectedRevision: 3n },
    { ...none, cordoned: false, draining: false },
    { ...none, draining: true },
    { ...none, labels: { tier: "prod" }, labelsRemoved: ["zone"] },
    { ...none, gateways: ["eu3:7400"] },
  ]);
  assert.ok(got.every(({ context, member }) => context?.requestId.length === 32 && member === "eu1"));
  client.close();
  await gateway.stop();
});
