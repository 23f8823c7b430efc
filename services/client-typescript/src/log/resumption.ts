/** Decides where a broken read of a log goes on. Pure. */

import { clone } from "@bufbuild/protobuf";
import {
  type ReadLogsRequest,
  ReadLogsRequest_Stream,
  ReadLogsRequestSchema,
  type ReadLogsResponse,
} from "../gen/borough/v1/task_pb.js";

/** A read of a log, as far as it was delivered. */
export class LogResumption {
  /** The request that goes on behind everything that was delivered. */
  readonly request: ReadLogsRequest;
  /** Whether some answer had a position. Older gateways send none. */
  positioned = false;
  /** Whether an answer without a position was delivered: nobody can tell where the read goes on. */
  lost = false;

  constructor(request: ReadLogsRequest) {
    this.request = clone(ReadLogsRequestSchema, request);
  }

  /** Records an answer that is delivered. */
  delivered(answer: ReadLogsResponse): void {
    if (answer.incarnation > 0n) this.request.incarnation = answer.incarnation;
    if (answer.next === undefined) {
      this.lost ||= answer.data.length > 0;
      return;
    }
    this.positioned = true;
    if (answer.stream === ReadLogsRequest_Stream.STDERR) this.request.stderrFrom = answer.next;
    else this.request.stdoutFrom = answer.next;
  }
}
