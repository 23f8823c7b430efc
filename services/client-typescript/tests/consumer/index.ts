/** A program of somebody else, which has only the packed package. */

import assert from "node:assert/strict";
import { Client, defineJob, InvalidError, type JobOptions } from "@borough/client";
import { Client as WebClient } from "@borough/client/browser";
import { type Job, JobState } from "@borough/client/messages";
import { thisTask } from "@borough/client/task";

const job: JobOptions = { name: "web", task: { command: ["serve"] } };
assert.equal(defineJob(job).count, 1);
assert.throws(() => thisTask({}), InvalidError);
const options = { gateways: "127.0.0.1:1", user: "ada", cell: "alpha" };
for (const client of [new Client(options), new WebClient(options)]) {
  const stop: (job: string) => Promise<Job> = (name) => client.jobs.stop(name);
  assert.equal(typeof stop, "function");
}
assert.equal(JobState.RUNNING, 2);
// @ts-expect-error a field that jobs do not have
const misspelt: JobOptions = { name: "web", replicas: 3 };
assert.throws(() => defineJob(misspelt), /no such field/);
console.log("the packed package works");
