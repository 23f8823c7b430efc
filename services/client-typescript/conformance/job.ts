/** A job of a scenario, through the builder of the library. */

import type { JobSpec } from "../src/messages.js";
import { defineJob, type HealthOptions, type JobOptions } from "../src/node.js";
import type { Json } from "./world.js";

/** The spec that a scenario asks for. */
export function jobSpec(job: Json): JobSpec {
  const {
    cpu_millis = 50,
    memory_bytes = 2 ** 25,
    command,
    ports,
    weight,
    env,
    probe,
    max_attempts,
    band,
    ...same
  } = job;
  const health = healthOf(probe as Json | undefined);
  return defineJob({
    ...same,
    ...(band !== undefined && { priority: band }),
    ...(max_attempts !== undefined && { restart: { attempts: max_attempts } }),
    task: {
      command,
      resources: { cpu: `${cpu_millis}m`, memory: memory_bytes },
      ...(ports !== undefined && { ports }),
      ...(weight !== undefined && { weight }),
      ...(env !== undefined && { environment: env }),
      ...(health && { health }),
    },
  } as unknown as JobOptions);
}

function healthOf(probe: Json | undefined): HealthOptions | undefined {
  if (!probe) return undefined;
  if (probe.exec) return { command: probe.exec as string[] };
  if (probe.tcp) return { tcp: { port: probe.tcp as string } };
  return { http: { port: probe.http as string, path: probe.path as string } };
}
