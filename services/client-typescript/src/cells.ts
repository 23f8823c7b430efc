/** Cells: their list, their state and their settings. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, present } from "./context.js";
import { type Cell, CellService, type CellSettingsSchema } from "./gen/borough/v1/cell_pb.js";
import type { Cursor } from "./gen/borough/v1/common_pb.js";

/** A cell as a gateway sees it now. */
export interface CellDetail {
  /** The cell. */
  readonly cell: Cell;
  /** A watch from here misses nothing. */
  readonly cursor: Cursor | undefined;
}

/** Settings of a cell; absent ones stay. */
export type CellSettingsChange = MessageInitShape<typeof CellSettingsSchema>;

/** The cells that the gateways serve. */
export class Cells {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /** Every cell. `load`: also sums the measured loads of its nodes. */
  async list(options: CallOptions & { readonly load?: boolean } = {}): Promise<Cell[]> {
    const message = { context: this.context.read(), load: options.load ?? false };
    return (await this.context.calls.unary(CellService.method.listCells, message, options)).cells;
  }

  /** The cell of the client. `load`: also sums the measured loads of its nodes. */
  async get(options: CallOptions & { readonly load?: boolean } = {}): Promise<CellDetail> {
    const message = { context: this.context.read(), name: this.context.cell, load: options.load ?? false };
    const { cell, cursor } = await this.context.calls.unary(CellService.method.getCell, message, options);
    return { cell: present("GetCell", "cell", cell), cursor };
  }

  /**
   * Changes settings of the cell of the client; absent settings stay.
   *
   * @param options - `expectedRevision`: another revision of the settings is then refused.
   */
  async update(
    settings: CellSettingsChange,
    options: ChangeOptions & { readonly expectedRevision?: bigint } = {},
  ): Promise<Cell> {
    const message = {
      context: this.context.change(options),
      name: this.context.cell,
      settings,
      expectedRevision: options.expectedRevision ?? 0n,
    };
    const { cell } = await this.context.calls.unary(CellService.method.updateCell, message, options);
    return present("UpdateCell", "cell", cell);
  }
}
