/**
 * A small library for a program that runs as a task of Borough: who am I, my ports, my peers, readiness.
 *
 * @packageDocumentation
 */

export { BoroughError, type ErrorKind, InvalidError, type InvalidField } from "../errors.js";
export type { Address } from "../resolve.js";
export {
  allocPort,
  type Environment,
  type TaskAlloc,
  type TaskIdentity,
  taskDevices,
  taskPort,
  thisTask,
} from "./identity.js";
export { type PeerOptions, peers } from "./peers.js";
export { Readiness } from "./readiness.js";
