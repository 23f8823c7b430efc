/**
 * A small platform: it keeps the count of a job by a rule, until Ctrl-C. The rule is one task for each ten files in a
 * directory, which stands for a queue.
 *
 * After `services/client-typescript/package DIRECTORY`:
 *
 *     node ~/.cache/borough/client-typescript/build/dist/examples/keep-count.js DIRECTORY [NAME]
 */

import { readdir } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { type CellItem, type Client, RefusedError } from "@borough/client";
import { connect } from "./connect.js";

const FILES_PER_TASK = 10;
const COUNT_MAX = 20;
const INTERVAL_MS = 1_000;

/** The count that the queue asks for. */
async function wanted(directory: string): Promise<number> {
  const files = await readdir(directory);
  return Math.min(Math.max(Math.ceil(files.length / FILES_PER_TASK), 1), COUNT_MAX);
}

/** The count of the job as the cell has it, kept up to date by a watch. */
class KnownCount {
  count: number | undefined;
  id = "";

  async follow(client: Client, name: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { job, cursor } = await client.jobs.get(name, { signal });
      this.count = job.count;
      this.id = job.id;
      const filter = { user: client.user, job: name, jobs: true };
      // It ends after a resync: then the job is read again.
      for await (const item of client.watch(filter, { resume: cursor, signal })) this.take(item);
    }
  }

  take(item: CellItem): void {
    if (item.type !== "change" || item.change.what !== "job") return;
    const { id, count } = item.change.job;
    if (count !== this.count) console.log(`the count is ${count} (${item.actor})`);
    this.count = count;
    this.id = id;
  }
}

async function keep(client: Client, name: string, directory: string, signal: AbortSignal): Promise<void> {
  await client.jobs.submit({
    name,
    task: { command: ["sleep", "infinity"], resources: { cpu: "50m", memory: "16MiB" } },
  });
  const known = new KnownCount();
  const following = known.follow(client, name, signal);
  following.catch(() => {});
  while (!signal.aborted) {
    const count = await wanted(directory);
    if (known.count !== undefined && known.count !== count) {
      try {
        // A later job of the name is somebody else's: this one must not change it.
        await client.jobs.scale(name, count, { expected: { id: known.id }, signal });
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error;
        console.log(`refused: ${error.message}`);
      }
    }
    await sleep(INTERVAL_MS, undefined, { signal }).catch(() => {});
  }
  await following.catch(() => {});
}

const [directory = ".", name = "kept"] = process.argv.slice(2);
using client = connect();
const interrupted = new AbortController();
process.once("SIGINT", () => interrupted.abort());
process.once("SIGTERM", () => interrupted.abort());
await keep(client, name, directory, interrupted.signal);
