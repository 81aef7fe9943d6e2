import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Logger } from "@toolrack/core";
import { isRecord } from "../../../helpers/index.ts";
import type { McpServerStore, McpToolChange, StoredMcpTool, ToolOverride } from "../../../store/index.ts";
import { pauseAfter, Timer } from "../limits.ts";
import { ownMember, type UpstreamTool } from "./catalogue.ts";

/** What a change of an upstream tool's definition leads to. `off`: nothing is remembered. */
export type PinningPolicy = "quarantine" | "trust" | "off";

/** The part of a tool's definition that is agreed to. */
type PinnedDefinition = Omit<UpstreamTool, "_meta" | "isTask">;

/** One place in which a definition is not what was agreed to. */
interface DefinitionChange {
  /** `description`, or a path such as `inputSchema.properties.path`. */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

export interface ToolPin {
  /** Where a tool stands: as it was agreed to, changed since, or never looked at because nothing is pinned. */
  readonly state: "approved" | "quarantined" | "unpinned";
  /** What has changed since it was approved. */
  readonly changes: readonly DefinitionChange[];
  /** The definition that was agreed to. */
  readonly approved?: PinnedDefinition;
  readonly approvedAt?: number | undefined;
  readonly approvedBy?: string | undefined;
  readonly override: ToolOverride;
}

const FIRST_USE = "first use";
/** 128 bits: short enough to be typed over, long enough that nobody finds a second definition for it. */
const HASH_LENGTH = 32;
const MOST_CHANGES = 50;

/** What is trusted here and is not in the store yet. */
interface Unkept {
  readonly pin: NonNullable<McpToolChange["approved"]>;
  /** What the store has in its place. Where that is something else by now, another process has said so. */
  readonly replaces: unknown;
  /** That it could not be written is in the log. */
  readonly isTold: boolean;
}

/** How a definition compares with what was agreed to, as the row had it then. */
interface Comparison {
  readonly with: unknown;
  readonly isSame: boolean;
  readonly changes: readonly DefinitionChange[];
}

/**
 * What was agreed to about the tools of one server. What a person says counts once it is in the store; what is seen counts
 * at once. Other processes on the same store may see another version of the server, so each looks for itself whether a
 * tool is what was agreed to.
 */
export class ToolPins {
  readonly #server: string;
  readonly #store: McpServerStore;
  readonly #policy: PinningPolicy;
  readonly #logger: Logger;
  /** A definition never changes, it is followed by another; so each is compared once. */
  readonly #comparisons = new WeakMap<UpstreamTool, Comparison>();
  #rows = new Map<string, StoredMcpTool>();
  #writing: Promise<unknown> = Promise.resolve();
  /** By the names of the tools; how often in a row something could not be written, and when that is tried again. */
  readonly #unkept = new Map<string, Unkept>();
  #failures = 0;
  readonly #timer = new Timer();
  #isWaiting = false;
  #isClosed = false;
  #isLeft = false;

  private constructor(server: string, store: McpServerStore, policy: PinningPolicy, logger: Logger) {
    this.#server = server;
    this.#store = store;
    this.#policy = policy;
    this.#logger = logger;
  }

  static async open(
    server: string,
    store: McpServerStore,
    policy: PinningPolicy,
    logger: Logger,
  ): Promise<ToolPins> {
    const pins = new ToolPins(server, store, policy, logger);
    for (const row of await store.tools(server)) pins.#rows.set(row.name, row);
    return pins;
  }

  /** Looks at the tools as they are now: new ones are trusted, and changed ones too where the policy says so. */
  inspect(tools: readonly UpstreamTool[]): void {
    if (this.#policy === "off" || this.#isLeft) return;
    for (const tool of tools) {
      const { name } = tool;
      const definition = pinOf(tool);
      const row = this.#row(name);
      const approved = approvedOf(row);
      const hasChanged = this.#policy === "trust" && !isDeepStrictEqual(approved, definition);
      if (approved !== undefined && !hasChanged) continue;
      const pin = { definition, at: Date.now(), by: FIRST_USE };
      const { replaces, isTold } = this.#unkept.get(name) ?? { replaces: row.approved, isTold: false };
      this.#keep(name, { pin, replaces, isTold });
    }
  }

  /**
   * Takes over what another process wrote. `tools` answers those of now, and is asked once that is known: a server may
   * change them meanwhile.
   */
  async refresh(tools: () => readonly UpstreamTool[]): Promise<void> {
    let rows: readonly StoredMcpTool[];
    let written: Promise<unknown>;
    do {
      written = this.#writing;
      await written.catch(() => {});
      rows = await this.#store.tools(this.#server);
      // What was written while they were read may not be among them.
    } while (written !== this.#writing);
    this.#rows = new Map(rows.map((row) => [row.name, row]));
    // What was trusted and could not be written is trusted still: were it forgotten, a change would be a first use.
    for (const [name, unkept] of this.#unkept) {
      if (isDeepStrictEqual(this.#row(name).approved, unkept.replaces)) this.#keep(name, unkept);
      else this.#unkept.delete(name);
    }
    this.inspect(tools().filter(({ name }) => this.#rows.get(name)?.approved === undefined));
  }

  /** Judges the very definition that it is given: what was agreed to counts for no other. */
  of(tool: UpstreamTool): ToolPin {
    const row = this.#rows.get(tool.name);
    const approved = approvedOf(row);
    const override = row?.override ?? {};
    if (this.#policy === "off" || row === undefined || approved === undefined) {
      return { state: "unpinned", changes: [], override };
    }
    const { approvedAt, approvedBy } = row;
    const known = { approved, approvedAt, approvedBy, override };
    const { isSame, changes } = this.#compare(tool, row, approved);
    const isQuarantined = this.#policy === "quarantine" && !isSame;
    return isQuarantined
      ? { state: "quarantined", changes, ...known }
      : { state: "approved", changes: [], ...known };
  }

  /** Agrees to the tool as it is now. Rejects when that cannot be written; then nothing is agreed to. */
  async approve(tool: UpstreamTool, by: string): Promise<void> {
    const pin = { definition: pinOf(tool), at: Date.now(), by };
    await this.#write(tool.name, { approved: pin });
    this.#pin(tool.name, pin);
  }

  async override(name: string, override: ToolOverride): Promise<void> {
    await this.#write(name, { override });
    this.#rows.set(name, { ...this.#row(name), override });
  }

  /** The server is wanted no more. Its rows were removed with it, so nothing that is seen is written any more. */
  leave(): void {
    this.#isLeft = true;
    this.#unkept.clear();
  }

  /** Resolves when everything is written, or cannot be. What could not be before is tried once more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer.clear();
    await this.#writing.catch(() => {});
    if (this.#unkept.size > 0) await this.#keepAll();
    await this.#writing.catch(() => {});
  }

  #compare(tool: UpstreamTool, row: StoredMcpTool, approved: PinnedDefinition): Comparison {
    const before = this.#comparisons.get(tool);
    if (before !== undefined && before.with === row.approved) return before;
    const definition = pinOf(tool);
    const isSame = isDeepStrictEqual(approved, definition);
    const comparison = { with: row.approved, isSame, changes: differences(approved, definition) };
    this.#comparisons.set(tool, comparison);
    return comparison;
  }

  #row(name: string): StoredMcpTool {
    return this.#rows.get(name) ?? { server: this.#server, name };
  }

  #pin(name: string, { definition, at, by }: Unkept["pin"]): void {
    this.#rows.set(name, { ...this.#row(name), approved: definition, approvedAt: at, approvedBy: by });
  }

  #keep(name: string, unkept: Unkept): void {
    const { pin } = unkept;
    this.#pin(name, pin);
    this.#unkept.set(name, unkept);
    this.#write(name, { approved: pin }).then(
      () => {
        this.#failures = 0;
        const left = this.#unkept.get(name);
        if (left?.pin === pin) this.#unkept.delete(name);
        // It has changed again meanwhile, which is yet to be written.
        else if (left !== undefined) this.#unkept.set(name, { ...left, replaces: pin.definition });
      },
      (error: Error) => {
        const left = this.#unkept.get(name);
        if (left === undefined) return;
        if (!left.isTold) {
          this.#logger.warn(
            `The tool "${name}" of the MCP server "${this.#server}" is trusted as it is, which could not be kept and is tried again: ${error.message}`,
          );
        }
        this.#unkept.set(name, { ...left, isTold: true });
        this.#tryAgain();
      },
    );
  }

  /** Once this process has ended, nobody would know any more what the tools were when they were first seen. */
  #tryAgain(): void {
    if (this.#isWaiting || this.#isClosed) return;
    this.#failures++;
    this.#isWaiting = true;
    this.#timer.set(pauseAfter(this.#failures), () => {
      this.#isWaiting = false;
      void this.#keepAll();
    });
  }

  /** Writes what is trusted and is not in the store, where another process may have said otherwise. */
  #keepAll(): Promise<void> {
    return this.refresh(() => []).catch(() => this.#tryAgain());
  }

  #write(name: string, change: McpToolChange): Promise<void> {
    // One after the other, so that the last word is the last one written. A failure is that of whoever waits.
    const written = this.#writing.catch(() => {}).then(() => this.#store.putTool(this.#server, name, change));
    written.catch(() => {});
    this.#writing = written;
    return written;
  }
}

/** Of a text that is no JSON nobody knows what was agreed to: whatever the tool is now differs from it. */
function approvedOf(row: StoredMcpTool | undefined): PinnedDefinition | undefined {
  if (row?.approved === undefined) return undefined;
  // The column holds what was written from a definition.
  if (isRecord(row.approved)) return row.approved as unknown as PinnedDefinition;
  // No definition has the last member, so none is the same.
  const unknown = { inputSchema: { type: "object" }, approved: "It cannot be read any more." };
  return { name: row.name, ...unknown };
}

export function pinOf({ _meta, isTask, ...definition }: UpstreamTool): PinnedDefinition {
  return definition;
}

/** What stands for a definition where a person says which one they agree to. */
export function hashOfPin(definition: PinnedDefinition): string {
  return createHash("sha256").update(sortedJson(definition)).digest("hex").slice(0, HASH_LENGTH);
}

/**
 * What a person must see to decide, whatever the order of keys. Compared member by member: a fingerprint could be aimed
 * at by a server that wrote both.
 */
export function differences(before: unknown, after: unknown, path = ""): DefinitionChange[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isRecord(before) || !isRecord(after)) {
    const was = before === undefined ? {} : { before };
    return [{ path, ...was, ...(after === undefined ? {} : { after }) }];
  }
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return keys
    .flatMap((key) =>
      differences(ownMember(before, key), ownMember(after, key), path === "" ? key : `${path}.${key}`),
    )
    .slice(0, MOST_CHANGES);
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, member) =>
    isRecord(member)
      ? Object.fromEntries(Object.entries(member).sort(([one], [other]) => (one < other ? -1 : 1)))
      : member,
  );
}
