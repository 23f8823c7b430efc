/**
 * What {@link defineJob} takes: a job as a job file describes it, with the same fields, defaults and bounds.
 * `docs/job-files.md` of Borough says more of each.
 */

/** Milliseconds, or a text such as `250ms`, `5s` or `1m30s`. */
export type Duration = number | string;
/** A number of cores such as 0.5, or a text such as `500m`. */
export type Cores = number | string;
/** A number of bytes, or a text such as `64MiB`. */
export type Bytes = number | string;

/** A job. Only the name and the command of its task have no default. */
export interface JobOptions {
  /** A DNS label that begins with a letter; unique for the user within the cell. */
  readonly name: string;
  /** Whose job it is. Default: the user of the client. */
  readonly user?: string;
  /** What for: a service until stopped, batch work until done, a task on each node, or places for tasks. */
  readonly kind?: "service" | "batch" | "daemon" | "alloc_set";
  /** 0 to 399, or a band. Default: 200, batch jobs 100. */
  readonly priority?: number | "best_effort" | "batch" | "production" | "monitoring";
  /** Tasks, 0 to 100,000. Default: 1. */
  readonly count?: number;
  /** Tasks that must fit together before any is placed. */
  readonly minMember?: number | "all";
  /** Jobs of the same user that must have ended: their names, which must have succeeded, or more. */
  readonly after?: readonly (string | { readonly job: string; readonly condition: "finished" | "succeeded" })[];
  /** Which nodes may run its tasks: texts such as `rack in [r1, r2]`, or more. */
  readonly constraints?: readonly (string | ConstraintOptions)[];
  /** Over which failure domains its tasks spread: names of attributes, the first weighing most, their weights, or more. */
  readonly spread?: readonly (string | SpreadOptions)[] | Readonly<Record<string, number>>;
  /** What each task runs. Not of an alloc set that has the defaults. */
  readonly task?: TaskOptions;
  /** What differs for single tasks, by index. */
  readonly overrides?: Readonly<Record<number, OverrideOptions>>;
  /**
   * What happens when a task ends by itself. Default: services always restart, batch work three times after failures.
   */
  readonly restart?: RestartMode | RestartOptions;
  /** Time between the withdrawal of an endpoint and SIGTERM. Default: the cell's, if the task has ports. */
  readonly drainDelay?: Duration;
  /** How long a vanished node is waited for, 1s to 24h. Default: the setting of the cell. */
  readonly lostAfter?: Duration;
  /** Labels, by which jobs are selected. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Near which other tasks, and apart from which. */
  readonly affinity?: readonly AffinityOptions[];
  /** Taints that do not keep its tasks away: their keys, or more. */
  readonly tolerations?: readonly (string | TolerationOptions)[];
  /** Which scheduler of the cell places it. */
  readonly scheduler?: string;
  /** The scoring profile for its tasks. */
  readonly profile?: string;
  /** The queue of the cell in which it waits. */
  readonly queue?: string;
  /** Within which failure domains the members of the gang stand: an attribute for one domain, or more. */
  readonly gangTopology?: string | GangTopologyOptions;
  /** Groups of tasks that do the same. Their counts add up to the count of the job. */
  readonly roles?: readonly RoleOptions[];
  /** Whether its tasks evict others, and how its own give way. */
  readonly preemption?: PreemptionOptions;
  /** What the job is for, in one line of at most 512 bytes. */
  readonly description?: string;
  /** How long a wait lasts while no further task becomes healthy, 1s to 24h. Default: 10m. */
  readonly progressDeadline?: Duration;
  /** How a changed spec reaches its tasks. */
  readonly update?: UpdateOptions;
  /** The alloc set of the same user in which its tasks run. */
  readonly allocSet?: string;
}

/** What a task runs, and what it needs. */
export interface TaskOptions {
  /** The program and its arguments. An alloc set has none. */
  readonly command?: readonly string[];
  /** Variables of its environment. */
  readonly environment?: Readonly<Record<string, string>>;
  /** An absolute path. Default: the task's own directory. */
  readonly workingDirectory?: string;
  /** What it requests and is limited to. Default: 100m and 64MiB. */
  readonly resources?: ResourceOptions;
  /** TCP ports: names, or names with fixed numbers from 1024. In a map, `"auto"` lets the scheduler choose. */
  readonly ports?:
    | readonly (string | { readonly name: string; readonly number?: number })[]
    | Readonly<Record<string, number | "auto">>;
  /** How its health is checked. Default: it is healthy while it runs. */
  readonly health?: HealthOptions;
  /** Time between SIGTERM and SIGKILL. Default: 5s. */
  readonly grace?: Duration;
  /** How its output is kept. Default: three files of 10MiB for each stream. */
  readonly log?: { readonly fileBytes?: Bytes; readonly files?: number };
  /** Its share of traffic, 1 to 255. Default: 1. */
  readonly weight?: number;
  /** The part of its node that it stays within. */
  readonly within?: "one_socket" | "one_numa_node";
  /** Packages that it uses, such as `web/1.4.2`. Nodes that have them are preferred. */
  readonly packages?: readonly string[];
  /** Whether its processor time is whole cores of its own. */
  readonly exclusiveCores?: boolean;
  /** Programs before, beside or after its command; at most 8. */
  readonly helpers?: readonly HelperOptions[];
  /** Signed tokens that it gets in files, by which others know who it is; at most 4. A name is its audience too. */
  readonly identities?: readonly (string | IdentityOptions)[];
  /** Secrets that its node gives it; at most 16. */
  readonly secrets?: readonly SecretOptions[];
}

/** What a task requests. */
export interface ResourceOptions {
  /** Processor time. */
  readonly cpu?: Cores;
  /** Memory, at least 1MiB. */
  readonly memory?: Bytes;
  /** Disk. */
  readonly disk?: Bytes;
  /** Bytes per second from and to disks, or a text such as `10MiB/s`. */
  readonly diskRate?: Bytes;
  /** Bytes per second of the network, or a text such as `10MiB/s`. */
  readonly networkRate?: Bytes;
  /** Devices by kind: a number, or a number with the models and the memory that fit. */
  readonly devices?: Readonly<Record<string, number | DeviceOptions>>;
}

/** Devices of one kind. */
export interface DeviceOptions {
  /** How many: whole ones, or a share of one such as 0.5. */
  readonly count: number;
  /** Models that fit. Default: any. */
  readonly model?: readonly string[];
  /** Memory that each has at least. */
  readonly memory?: Bytes;
}

/** A check of health: exactly one of `http`, `tcp` and `command`, and its times. */
export interface HealthOptions {
  /** A GET that answers with 200 to 399. `path` default: `/`. */
  readonly http?: { readonly port: string; readonly path?: string };
  /** A connection that opens. */
  readonly tcp?: { readonly port: string };
  /** A command in the environment of the task that exits with 0. */
  readonly command?: readonly string[];
  /** Time between two probes. Default: 5s. */
  readonly interval?: Duration;
  /** Time that a probe may take. Default: 2s. */
  readonly timeout?: Duration;
  /** Failures in a row that restart the task. Default: 3. */
  readonly failures?: number;
  /** Time after the start in which failures do not count. Default: 10s. */
  readonly initialGrace?: Duration;
}

/** A program that runs in the attempt of a task. */
export interface HelperOptions {
  /** Unique within the task. */
  readonly name: string;
  /** When it runs, as seen from the command of the task. */
  readonly when: "before" | "beside" | "after";
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Variables over those of the task. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Processor time that the node holds for it. Default: 100m. */
  readonly cpu?: Cores;
  /** Memory that the node holds for it. Default: 64MiB. */
  readonly memory?: Bytes;
  /** How long it may run, 1s to 1h. Default: 10m before the command, 30s after it. */
  readonly deadline?: Duration;
}

/** An identity of a task. The variable `BOROUGH_IDENTITY_NAME` has the path of the file with its token. */
export interface IdentityOptions {
  /** Unique within the task. */
  readonly name: string;
  /** Who is to accept its tokens. Default: the name. */
  readonly audience?: string;
  /** How long each token is valid, 30s to 24h. It is renewed at half of it. Default: 1h. */
  readonly ttl?: Duration;
}

/** A secret of a task. */
export interface SecretOptions {
  /** The variable, unique within the task. */
  readonly name: string;
  /** Where its node has it, below the secrets of the job's user, such as `db/password`. */
  readonly source: string;
  /** What the variable has: the secret, or the path of a file with it. Default: `variable`. */
  readonly as?: "variable" | "file";
}

/** What differs for some tasks of a job. */
export interface OverrideOptions {
  /** Replaces the command. */
  readonly command?: readonly string[];
  /** Arguments after the command. */
  readonly arguments?: readonly string[];
  /** Variables over those of the job. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Replaces the resources. */
  readonly resources?: ResourceOptions;
  /** Replaces the weight. */
  readonly weight?: number;
}

/** Tasks of one job that do the same. */
export interface RoleOptions extends OverrideOptions {
  /** Unique in the job. */
  readonly name: string;
  /** How many. Default: 1. */
  readonly count?: number;
  /** How many of them must fit before any task of the job is placed. Default: all. */
  readonly minMember?: number;
}

/** When a task that ended by itself starts again. */
export type RestartMode = "always" | "on_failure" | "never";

/** Restarts of tasks that end by themselves. */
export interface RestartOptions {
  /** When a task starts again. Default: as for its kind of job. */
  readonly mode?: RestartMode;
  /** Restarts in a row. Default: `unlimited` for services, 3 for batch work. */
  readonly attempts?: number | "unlimited";
  /** Pause before the first restart. Default: 500ms. */
  readonly backoff?: Duration;
  /** Longest pause; each failure in a row doubles the pause up to it. Default: 1m. */
  readonly backoffMax?: Duration;
  /** An attempt of this length resets the count of failures. Default: 2m. */
  readonly resetAfter?: Duration;
}

/** How a changed spec reaches the tasks of a running job. */
export interface UpdateOptions {
  /** Tasks that may be without a healthy attempt at a time. */
  readonly unavailableMax?: number;
  /** The same as a share of the count, 1 to 100. */
  readonly unavailablePercentMax?: number;
  /** How long a new attempt must be healthy before it counts. Default: 10s. */
  readonly healthyAfter?: Duration;
  /** Failures in a row of one task that a rollout bears, 0 to 100. Default: 2. */
  readonly failuresMax?: number;
  /** What follows when the rollout fails. Default: `revert`. */
  readonly onFailure?: "revert" | "stop";
  /** Tasks that a rollout runs beside the job's own. */
  readonly surgeMax?: number;
  /** The same as a share of the count, 0 to 100. */
  readonly surgePercentMax?: number;
  /** How many tasks run the new version first, beside the job's own. */
  readonly canaries?: number;
  /** Whether healthy canaries promote their version. */
  readonly autoPromote?: boolean;
  /** The most healthy tasks that one rollout ends in all. */
  readonly disruptionsMax?: number;
  /** How other amounts reach a running task. Default: `in_place`. */
  readonly resize?: "in_place" | "restart";
  /** The signal after each resize in place. */
  readonly resizeSignal?: "SIGHUP" | "SIGUSR1" | "SIGUSR2" | "SIGWINCH";
}

/** A condition on an attribute or label. */
export interface ConstraintOptions {
  /** The attribute, such as `rack` or `node.name`. */
  readonly attribute: string;
  /** How it is compared. */
  readonly operator: "in" | "not_in" | "exists" | "absent" | "greater_than" | "less_than";
  /** With what: none for `exists` and `absent`, one number for `greater_than` and `less_than`. */
  readonly values?: readonly (string | number)[];
  /** 1 to 100: a wish of this weight. Absent: a hard condition. */
  readonly prefer?: number;
}

/** How tasks spread over the failure domains of one attribute. */
export interface SpreadOptions {
  /** The attribute that names the domain. */
  readonly attribute: string;
  /** 1 to 100. Default: by the place in the list. */
  readonly weight?: number;
  /** The most tasks beyond the emptiest domain. */
  readonly maxSkew?: number;
  /** The most tasks in one domain. */
  readonly tasksMax?: number;
  /** The largest share of the tasks in one domain, 1 to 100. */
  readonly percentMax?: number;
}

/** Near which tasks those of the job run, or apart from which: one of `near` and `apart`. */
export interface AffinityOptions {
  /** The attribute of a domain with at least one of those tasks. */
  readonly near?: string;
  /** The attribute of a domain with none of those tasks. */
  readonly apart?: string;
  /** Which jobs: conditions on their labels, on `job.name` and `job.user`, as objects or as texts like `app == cache`. */
  readonly jobs: readonly (string | ConstraintOptions)[];
  /** 1 to 100: a wish of this weight. Absent: a hard rule. */
  readonly prefer?: number;
}

/** Taints that do not keep its tasks away. */
export interface TolerationOptions {
  /** The key of the taints. Absent: every taint. */
  readonly taint?: string;
  /** Only this value. Absent: any. */
  readonly value?: string;
  /** Only this effect. Absent: any. */
  readonly effect?: "no_schedule" | "prefer_no_schedule" | "no_execute";
  /** How long a task stays after the taint was set, only with `no_execute`. */
  readonly evictAfter?: Duration;
}

/** Few failure domains for the members of a gang. */
export interface GangTopologyOptions {
  /** The attribute that names the domain. */
  readonly attribute: string;
  /** At most so many domains. */
  readonly atMost?: number;
  /** Exactly so many domains. */
  readonly exactly?: number;
  /** Whether they may use more if no such domains have room. */
  readonly prefer?: boolean;
}

/** The rules of a job for preemption. */
export interface PreemptionOptions {
  /** Its tasks wait for room and evict nobody. */
  readonly never?: boolean;
  /** The most time that its victims have between SIGTERM and SIGKILL. */
  readonly noticeMax?: Duration;
  /** Evictions that leave more of its tasks without a node than this are the last choice. */
  readonly downMax?: number;
}
