/**
 * Decides where a broken watch resumes, and which of its messages were delivered before. Pure.
 *
 * All changes of one commit share one cursor, and a stream may break between them. To resume from that cursor would
 * lose the rest of the commit. The watch therefore resumes from the last complete cursor, which the last change of a
 * commit and every bookmark mark. It skips as many changes after that as the broken stream had already delivered.
 */

import type { Cursor } from "../gen/borough/v1/common_pb.js";

/** The delivered part of a watch. */
export class Resumption {
  /** Everything up to and with this cursor was delivered. Absent: a snapshot is still incomplete. */
  #base: Cursor | undefined;
  /** The cursor of the newest changes after the base. */
  #newest: Cursor | undefined;
  /** Delivered changes with the newest cursor. */
  #delivered = 0;
  /** Changes with the newest cursor that the open stream has sent. */
  #sent = 0;

  /** A watch that continues after `base`, or starts with a snapshot. */
  constructor(base?: Cursor) {
    this.#base = base;
  }

  /** Where a new stream must start. Absent: with a snapshot. */
  reopened(): Cursor | undefined {
    this.#sent = 0;
    return this.#base;
  }

  /** True while a snapshot is incomplete. */
  get inSnapshot(): boolean {
    return this.#base === undefined;
  }

  /** Records that everything up to `cursor` was sent. */
  complete(cursor: Cursor): void {
    const passed = (known: Cursor | undefined) => known === undefined || !isBefore(cursor, known);
    if (!passed(this.#base) || !passed(this.#newest)) return;
    this.#base = cursor;
    this.#newest = undefined;
    this.#delivered = 0;
    this.#sent = 0;
  }

  /** Returns true if a change with `cursor` must be delivered, and counts it as delivered. */
  accept(cursor: Cursor): boolean {
    if (this.#base === undefined) return true;
    if (isSame(cursor, this.#base) || isBefore(cursor, this.#base)) return false;
    if (this.#newest && isSame(this.#newest, cursor)) {
      this.#sent += 1;
      const isNew = this.#sent > this.#delivered;
      this.#delivered = Math.max(this.#delivered, this.#sent);
      return isNew;
    }
    if (this.#newest) {
      if (isBefore(cursor, this.#newest)) return false;
      this.#base = this.#newest;
    }
    this.#newest = cursor;
    this.#delivered = 1;
    this.#sent = 1;
    return true;
  }
}

/** Returns true if `left` is before `right`. Cursors of different epochs have no order. */
export function isBefore(left: Cursor, right: Cursor): boolean {
  return left.storeEpoch === right.storeEpoch && compare(left.stamp, right.stamp) < 0;
}

function isSame(left: Cursor, right: Cursor): boolean {
  return left.storeEpoch === right.storeEpoch && compare(left.stamp, right.stamp) === 0;
}

function compare(left: Uint8Array, right: Uint8Array): number {
  const at = left.findIndex((byte, index) => byte !== right[index]);
  return at === -1 ? left.length - right.length : (left[at] ?? 0) - (right[at] ?? -1);
}
