/**
 * The messages of the API, as the `.proto` files of Borough describe them. Answers of the client are of these types.
 */

export * from "./gen/borough/v1/access_pb.js";
export * from "./gen/borough/v1/audit_pb.js";
export * from "./gen/borough/v1/cell_pb.js";
export * from "./gen/borough/v1/common_pb.js";
export * from "./gen/borough/v1/dry_run_pb.js";
export * from "./gen/borough/v1/federated_pb.js";
export * from "./gen/borough/v1/job_pb.js";
export * from "./gen/borough/v1/member_pb.js";
export * from "./gen/borough/v1/name_pb.js";
export * from "./gen/borough/v1/node_pb.js";
export * from "./gen/borough/v1/quota_pb.js";
export * from "./gen/borough/v1/task_pb.js";
export * from "./gen/borough/v1/watch_pb.js";
