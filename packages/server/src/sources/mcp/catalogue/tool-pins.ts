import type {
  McpServerStore,
  StoredMcpTool,
  ToolOverride,
} from "../../../store/mcp-servers/mcp-server-store.ts";
import type { UpstreamTool } from "./catalogue.ts";
import {
  type DefinitionChange,
  differences,
  type PinnedDefinition,
  type PinningPolicy,
  pinOf,
  samePin,
} from "./pin.ts";

/** Where a tool stands: as it was agreed to, changed since, or never looked at because nothing is pinned. */
export type PinState = "approved" | "quarantined" | "unpinned";

export interface ToolPin {
  readonly state: PinState;
  /** What has changed since it was approved. */
  readonly changes: readonly DefinitionChange[];
  /** The definition that was agreed to. */
  readonly approved?: PinnedDefinition;
  readonly approvedAt?: number;
  readonly approvedBy?: string;
  readonly override: ToolOverride;
}

const FIRST_USE = "first use";

/** What was agreed to about the tools of one server. Decisions are made in memory and kept in the store. */
export class ToolPins {
  readonly #server: string;
  readonly #store: McpServerStore;
  readonly #policy: PinningPolicy;
  readonly #rows = new Map<string, StoredMcpTool>();
  #writing: Promise<unknown> = Promise.resolve();

  private constructor(server: string, store: McpServerStore, policy: PinningPolicy) {
    this.#server = server;
    this.#store = store;
    this.#policy = policy;
  }

  static async open(server: string, store: McpServerStore, policy: PinningPolicy): Promise<ToolPins> {
    const pins = new ToolPins(server, store, policy);
    for (const row of await store.tools(server)) pins.#rows.set(row.name, row);
    return pins;
  }

  /** Looks at the tools as they are now: new ones are trusted, changed ones are treated as the policy says. */
  inspect(tools: readonly UpstreamTool[]): void {
    if (this.#policy === "off") return;
    for (const tool of tools) {
      const definition = pinOf(tool);
      const row = this.#rows.get(tool.name);
      const approved = approvedOf(row);
      if (approved === undefined || (this.#policy === "trust" && !samePin(approved, definition))) {
        this.#approve(tool.name, definition, FIRST_USE);
      } else if (samePin(approved, definition)) {
        if (row?.pending !== undefined) this.#keep(withoutPending(row));
      } else if (
        row !== undefined &&
        (row.pending === undefined || !samePin(row.pending as PinnedDefinition, definition))
      ) {
        this.#keep({ ...row, pending: definition });
      }
    }
  }

  of(name: string): ToolPin {
    const row = this.#rows.get(name);
    const approved = approvedOf(row);
    const override = row?.override ?? {};
    if (this.#policy === "off" || row === undefined || approved === undefined) {
      return { state: "unpinned", changes: [], override };
    }
    return {
      state: row.pending === undefined ? "approved" : "quarantined",
      changes: row.pending === undefined ? [] : differences(approved, row.pending),
      approved,
      ...(row.approvedAt === undefined ? {} : { approvedAt: row.approvedAt }),
      ...(row.approvedBy === undefined ? {} : { approvedBy: row.approvedBy }),
      override,
    };
  }

  /** Agrees to the tool as it is now. */
  async approve(tool: UpstreamTool, by: string): Promise<void> {
    this.#approve(tool.name, pinOf(tool), by);
    await this.#writing;
  }

  async override(name: string, override: ToolOverride): Promise<void> {
    const row = this.#rows.get(name) ?? { server: this.#server, name };
    this.#keep({ ...row, override });
    await this.#writing;
  }

  /** Resolves when everything is written; rejects when something could not be. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  #approve(name: string, definition: PinnedDefinition, by: string): void {
    const row = this.#rows.get(name) ?? { server: this.#server, name };
    this.#keep({ ...withoutPending(row), approved: definition, approvedAt: Date.now(), approvedBy: by });
  }

  #keep(row: StoredMcpTool): void {
    this.#rows.set(row.name, row);
    // One after the other, so that the last word is the last one written. A failure is that of whoever waits.
    this.#writing = this.#writing.catch(() => {}).then(() => this.#store.putTool(row));
    this.#writing.catch(() => {});
  }
}

function approvedOf(row: StoredMcpTool | undefined): PinnedDefinition | undefined {
  // The column holds what `#approve` wrote.
  return row?.approved as PinnedDefinition | undefined;
}

function withoutPending({ pending: _, ...row }: StoredMcpTool): StoredMcpTool {
  return row;
}
