import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Logger } from "@toolrack/core";
import { asRecord, defined, isRecord } from "../../../helpers/index.ts";
import type { McpServerStore, McpToolChange, StoredMcpTool, ToolOverride } from "../../../store/index.ts";
import { pauseAfter, Timer } from "../limits.ts";
import { ownMember, type UpstreamTool } from "./catalogue.ts";

/**
 * What happens when an upstream tool's definition changes. `quarantine`: the tool is switched off until a
 * person approves it. `trust`: the change is approved at once. `off`: definitions are not remembered.
 */
export type PinningPolicy = "quarantine" | "trust" | "off";

/** The part of a tool's definition that is approved. */
type PinnedDefinition = Omit<UpstreamTool, "_meta" | "isTask"> & {
  /** Of an operation of an API: the request that is sent, and where to. */
  readonly request?: object;
};

/** One difference between a definition and the approved one. */
interface DefinitionChange {
  /** `description`, or a path such as `inputSchema.properties.path`. */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

export interface ToolPin {
  /** `quarantined`: the tool has changed since it was approved. `unpinned`: no approved definition is remembered. */
  readonly state: "approved" | "quarantined" | "unpinned";
  /** What has changed in the tool since it was approved. */
  readonly changes: readonly DefinitionChange[];
  /** The approved definition. */
  readonly approved?: PinnedDefinition;
  readonly approvedAt?: number | undefined;
  readonly approvedBy?: string | undefined;
  readonly override: ToolOverride;
}

const FIRST_USE = "first use";
/** 128 bits: short enough to type, long enough that nobody can make a second definition with the same hash. */
const HASH_LENGTH = 32;
const MOST_CHANGES = 50;

/** An approval that is not in the store yet. */
interface UnsavedPin {
  pin: NonNullable<McpToolChange["approved"]>;
  /**
   * The value in the store that this approval replaces. If the store has another value now, another process has
   * written an approval of its own.
   */
  replaces: unknown;
  /** Whether it was logged that this approval could not be written. */
  isLogged: boolean;
}

/**
 * The approvals for the tools of one server. A person's approval counts when it is in the store; trust at first
 * use counts at once. Other processes on the same store may see another version of the server, so each process
 * compares the tools itself.
 */
export class ToolPins {
  readonly #server: string;
  readonly #store: McpServerStore;
  readonly #policy: PinningPolicy;
  readonly #logger: Logger;
  /** How tools differ from the approved definition `from`. A changed definition is a new object, so each is compared once. */
  readonly #comparisons = new WeakMap<UpstreamTool, Pick<ToolPin, "changes"> & { readonly from: unknown }>();
  #rows: Map<string, StoredMcpTool>;
  #writing: Promise<unknown> = Promise.resolve();
  /** The approvals that are not in the store yet, by the names of the tools. */
  readonly #unsaved = new Map<string, UnsavedPin>();
  /** How many writes in a row failed. */
  #failures = 0;
  readonly #timer = new Timer();
  #isClosed = false;
  #isRemoved = false;

  private constructor(
    server: string,
    store: McpServerStore,
    policy: PinningPolicy,
    logger: Logger,
    rows: readonly StoredMcpTool[],
  ) {
    this.#server = server;
    this.#store = store;
    this.#policy = policy;
    this.#logger = logger;
    this.#rows = byName(rows);
  }

  static async open(
    ...[server, store, policy, logger]: [string, McpServerStore, PinningPolicy, Logger]
  ): Promise<ToolPins> {
    return new ToolPins(server, store, policy, logger, await store.tools(server));
  }

  /** Approves new tools, and with the policy `trust` also changed ones. */
  inspect(tools: readonly UpstreamTool[]): void {
    if (this.#policy === "off" || this.#isRemoved) return;
    for (const tool of tools) {
      const { name } = tool;
      const definition = pinOf(tool);
      const row = this.#row(name);
      const approved = approvedOf(row);
      const hasChanged = this.#policy === "trust" && !isDeepStrictEqual(approved, definition);
      if (approved !== undefined && !hasChanged) continue;
      const pin = { definition, at: Date.now(), by: FIRST_USE };
      const unsaved = this.#unsaved.get(name) ?? { pin, replaces: row.approved, isLogged: false };
      unsaved.pin = pin;
      this.#save(name, unsaved);
    }
  }

  /**
   * Reads what another process wrote. `tools` returns the current tools; it is called after the read, because they may
   * change during it.
   */
  async refresh(tools: () => readonly UpstreamTool[]): Promise<void> {
    let rows: readonly StoredMcpTool[];
    let written: Promise<unknown>;
    do {
      written = this.#writing;
      await written.catch(() => {});
      rows = await this.#store.tools(this.#server);
      // Read again if something was written during the read.
    } while (written !== this.#writing);
    this.#rows = byName(rows);
    // Keeps approvals that could not be written. If they were forgotten, a changed tool would count as new.
    for (const [name, unsaved] of this.#unsaved) {
      if (isDeepStrictEqual(this.#row(name).approved, unsaved.replaces)) this.#save(name, unsaved);
      else this.#unsaved.delete(name);
    }
    this.inspect(tools().filter(({ name }) => this.#rows.get(name)?.approved === undefined));
  }

  /** Compares this definition of a tool with the approved definition. */
  of(tool: UpstreamTool): ToolPin {
    const row = this.#rows.get(tool.name);
    const approved = approvedOf(row);
    const override = row?.override ?? {};
    if (this.#policy === "off" || row === undefined || approved === undefined) {
      return { state: "unpinned", changes: [], override };
    }
    const { approvedAt, approvedBy } = row;
    const changes = this.#policy === "quarantine" ? this.#compare(tool, row, approved) : [];
    const state = changes.length > 0 ? "quarantined" : "approved";
    return { state, changes, approved, approvedAt, approvedBy, override };
  }

  /** Approves the tool as it is now. Rejects when that cannot be written; then nothing is approved. */
  async approve(tool: UpstreamTool, by: string): Promise<void> {
    const pin = { definition: pinOf(tool), at: Date.now(), by };
    await this.#write(tool.name, { approved: pin });
    this.#pin(tool.name, pin);
  }

  async override(name: string, override: ToolOverride): Promise<void> {
    await this.#write(name, { override });
    this.#rows.set(name, { ...this.#row(name), override });
  }

  /** To be called when the server is removed. Its rows are gone, so nothing is written any more. */
  markRemoved(): void {
    this.#isRemoved = true;
    this.#unsaved.clear();
  }

  /** Tries failed writes once more. Resolves when everything is written or has failed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer.clear();
    await this.#writing.catch(() => {});
    if (this.#unsaved.size > 0) await this.#saveAll();
    await this.#writing.catch(() => {});
  }

  #compare(tool: UpstreamTool, { approved: from }: StoredMcpTool, approved: PinnedDefinition) {
    const before = this.#comparisons.get(tool);
    if (before?.from === from && before !== undefined) return before.changes;
    const changes = differences(approved, pinOf(tool));
    this.#comparisons.set(tool, { from, changes });
    return changes;
  }

  #row(name: string): StoredMcpTool {
    return this.#rows.get(name) ?? { server: this.#server, name };
  }

  #pin(name: string, { definition, at, by }: UnsavedPin["pin"]): void {
    this.#rows.set(name, { ...this.#row(name), approved: definition, approvedAt: at, approvedBy: by });
  }

  #save(name: string, unsaved: UnsavedPin): void {
    const { pin } = unsaved;
    this.#pin(name, pin);
    this.#unsaved.set(name, unsaved);
    this.#write(name, { approved: pin }).then(
      () => {
        this.#failures = 0;
        // If the tool has changed again meanwhile, its newer approval is still to be written.
        if (unsaved.pin !== pin) unsaved.replaces = pin.definition;
        else if (this.#unsaved.get(name) === unsaved) this.#unsaved.delete(name);
      },
      (error: Error) => {
        if (this.#unsaved.get(name) !== unsaved) return;
        if (!unsaved.isLogged) {
          this.#logger.warn(
            `The tool "${name}" of the MCP server "${this.#server}" is trusted as it is, which could not be kept and is tried again: ${error.message}`,
          );
        }
        unsaved.isLogged = true;
        this.#tryAgain();
      },
    );
  }

  /**
   * Writes the unsaved approvals after a pause, again and again until it succeeds: the definitions at first use
   * are known only to this process.
   */
  #tryAgain(): void {
    if (this.#timer.at !== undefined || this.#isClosed) return;
    this.#failures++;
    this.#timer.set(pauseAfter(this.#failures), () => void this.#saveAll());
  }

  /** Writes the unsaved approvals, except where another process has written an approval of its own. */
  #saveAll(): Promise<void> {
    return this.refresh(() => []).catch(() => this.#tryAgain());
  }

  #write(name: string, change: McpToolChange): Promise<void> {
    // Writes go one after the other, so that the latest value is written last. Each caller handles its own failure.
    const written = this.#writing.catch(() => {}).then(() => this.#store.putTool(this.#server, name, change));
    written.catch(() => {});
    this.#writing = written;
    return written;
  }
}

function byName(rows: readonly StoredMcpTool[]): Map<string, StoredMcpTool> {
  return new Map(rows.map((row) => [row.name, row]));
}

/** If the stored approval cannot be read, returns a definition that differs from every tool. */
function approvedOf(row: StoredMcpTool | undefined): PinnedDefinition | undefined {
  if (row?.approved === undefined) return undefined;
  // The column holds a definition that was written here.
  if (isRecord(row.approved)) return row.approved as unknown as PinnedDefinition;
  // No real definition has the member `approved`, so none is equal.
  const unknown = { inputSchema: { type: "object" }, approved: "It cannot be read any more." };
  return { name: row.name, ...unknown };
}

export function pinOf({ _meta, isTask, ...definition }: UpstreamTool): PinnedDefinition {
  const { tags: _tags, ...request } = asRecord(asRecord(_meta)["toolrack/api"]);
  return Object.keys(request).length === 0 ? definition : { ...definition, request };
}

/** Identifies the definition that a person approves. */
export function hashOfPin(definition: PinnedDefinition): string {
  return createHash("sha256").update(sortedJson(definition)).digest("hex").slice(0, HASH_LENGTH);
}

/**
 * The differences that a person must see to decide; the order of keys does not matter. Compares members and not hashes,
 * because a server that wrote both definitions could try to give them the same hash.
 */
export function differences(before: unknown, after: unknown, path = ""): DefinitionChange[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isRecord(before) || !isRecord(after)) return [{ path, ...defined({ before, after }) }];
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
