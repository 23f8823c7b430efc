/** The calls about federated jobs. */

import { type FederatedJob, FederatedJobState } from "../src/messages.js";
import type { BoroughClient, JobFile, ReleaseOrder } from "../src/node.js";
import type { Json } from "./world.js";

/** What the call of a step says of the job. */
export async function federatedCall(federated: BoroughClient["federated"], step: Json): Promise<Json> {
  const name = step.job as string;
  const order = async (word: ReleaseOrder) =>
    fieldsOf(await federated.release(name, word, step.stage === undefined ? {} : { stage: step.stage as number }));
  const run = async (file: JobFile, expectedRevision: bigint) => {
    const { job, changed } = await federated.run(file, { expectedRevision });
    return { changed, ...fieldsOf(job) };
  };
  const calls: Record<string, () => Promise<Json>> = {
    run: () => run(step.file as JobFile, BigInt((step.revision as number | undefined) ?? 0)),
    again: async () => {
      const { job, jobFile } = await federated.get(name);
      return run(jobFile, job.revision);
    },
    get: async () => fieldsOf((await federated.get(name)).job),
    scale: async () => fieldsOf(await federated.scale(name, step.count as number)),
    stop: async () => fieldsOf(await federated.stop(name)),
    pause: () => order("pause"),
    resume: () => order("resume"),
    approve: () => order("approve"),
    undo: () => order("undo"),
    forget: async () => fieldsOf(await federated.forget(name)),
    history: async () => ({ count: (await federated.history(name)).length }),
  };
  const call = calls[step.call as string];
  if (!call) throw new Error(`no call ${step.call}`);
  return call();
}

function fieldsOf(job: FederatedJob | undefined): Json {
  if (!job) return {};
  const state = FederatedJobState[job.state]?.toLowerCase();
  return { count: job.count, version: Number(job.version), revision: Number(job.revision), state };
}
