/** What the entries for Node and for browsers have in common. */

export type { Access, AccessQuestion, GrantDetail, Rights } from "./access.js";
export type { Audit, AuditFilter } from "./audit.js";
export type { CallOptions } from "./calls.js";
export type { CellDetail, CellSettingsChange, Cells } from "./cells.js";
export type { BoroughClient, CommonOptions, EventList, GatewayHealth } from "./client.js";
export { type ChangeOptions, type ListOptions, newRequestId } from "./context.js";
export * from "./errors.js";
export type { ExecExit, ExecInput, ExecOutput, ExecSession, TerminalSize } from "./exec.js";
export type {
  FederatedJobDetail,
  FederatedJobFilter,
  FederatedJobs,
  FederatedPlan,
  RebalancedTasks,
  ReleaseOrder,
  SubmittedFederatedJob,
} from "./federated.js";
export { listOf } from "./iterate.js";
export { defineJob } from "./job/build.js";
export type * from "./job/options.js";
export type { WaitOptions, WaitProgress, WaitResult } from "./job/wait.js";
export type { JobFile } from "./job-file.js";
export type { ExpectedJob, JobDetail, JobFilter, Jobs, RolloutOrder, SubmittedJob } from "./jobs.js";
export type { IssuedJoinToken, Joins, JoinTokenOptions } from "./joins.js";
export type { LabelChange, LabelCondition, LabelSelector } from "./labels.js";
export type { LogItem } from "./log/follower.js";
export type { MemberChangeOptions, Members } from "./members.js";
export type { EndpointFilter, Names, WatchOptions } from "./names.js";
export type { NodeFilter, Nodes, NodeTaint, NodeTaintMatch } from "./nodes.js";
export type { GatewayAbsence } from "./outage.js";
export type { BandName, QuotaDetail, QuotaLimits, Quotas } from "./quotas.js";
export type { JobName, JobRef, TaskName, TaskRef } from "./refs.js";
export type { Address } from "./resolve.js";
export type { RetryPolicy } from "./retry.js";
export type { ExecResult, LogOptions, TaskFilter, Tasks } from "./tasks.js";
export type { Token } from "./token.js";
export type { CellChange, CellFilter, CellItem } from "./watch/cell.js";
export type { EndpointItem } from "./watch/endpoints.js";
