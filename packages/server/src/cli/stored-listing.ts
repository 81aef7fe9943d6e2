import { readdirSync, readFileSync, renameSync, type Stats, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Workspace } from "../config/index.ts";
import type { Cli } from "./cli.ts";
import { entryAt } from "./workspace.ts";

/** A tool as lists show it. */
export interface ListedTool {
  readonly name: string;
  readonly title?: string | undefined;
  readonly displayName?: string | undefined;
  readonly description?: string | undefined;
  readonly aliases?: readonly string[] | undefined;
  readonly category?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly origin?: string | undefined;
  readonly dangerous: boolean;
  readonly readOnly: boolean;
  readonly disabled?: boolean | undefined;
  /** The estimated number of tokens that the tool's definition takes in a model's context. */
  readonly tokens?: number;
}

/**
 * What `list` found in a workspace, kept for the next `list` while all that it came from is the same: loading ten tools takes
 * ten times as long as Node's own start. A change is seen by names, times and sizes of files, as `make` sees it.
 */
interface StoredListing {
  /** See `stateOf`. */
  readonly state: string;
  readonly sources: Sources;
  readonly tools: readonly ListedTool[];
}

interface Sources {
  /** Folders that are looked into, with all that is below them. */
  readonly folders: readonly string[];
  /** Files, or places where a file would be used if it were there. */
  readonly files: readonly string[];
}

const fileIn = (workspace: string) => join(workspace, ".toolrack", "listing.json");

/** Undefined when nothing is stored for the workspace as it is now. */
export function readListing(workspace: string): readonly ListedTool[] | undefined {
  try {
    const { state, sources, tools }: StoredListing = JSON.parse(readFileSync(fileIn(workspace), "utf8"));
    return state === stateOf(workspace, sources) ? tools : undefined;
  } catch {
    return undefined; // There is none, or it was written by another version.
  }
}

/**
 * A listing that may be stored: made before the workspace is opened, added to while it is open, stored when it is closed. It
 * is not stored when something was said meanwhile, which the next `list` would not say.
 */
export class ListingDraft {
  readonly #workspace: string;
  readonly #begun = Date.now();
  readonly #storeBefore: string;
  #isSilent = true;
  #found: { readonly sources: Sources; readonly tools: readonly ListedTool[] } | undefined;

  constructor(cli: Cli, workspace: string) {
    this.#workspace = workspace;
    this.#storeBefore = storeState(workspace);
    cli.beforeTalk = () => {
      this.#isSilent = false;
    };
  }

  async add(workspace: Workspace, tools: readonly ListedTool[]): Promise<void> {
    // What another database says, and which tools other servers have, is known to nobody who does not ask.
    const { DATABASE_URL = "", REDIS_URL = "" } = process.env;
    if (
      DATABASE_URL + REDIS_URL !== "" ||
      tools.some(({ origin = "" }) => /^(?:mcp server|api) /.test(origin))
    )
      return;
    const { toolFolders = [], skillFolders = [], mcpFile, usedFiles } = workspace;
    const files = new Set([...(mcpFile === undefined ? [] : [mcpFile]), ...((await usedFiles?.()) ?? [])]);
    this.#found = { sources: { folders: [...toolFolders, ...skillFolders], files: [...files] }, tools };
  }

  store(): void {
    const isSame = storeState(this.#workspace) === this.#storeBefore;
    if (this.#found === undefined || !this.#isSilent || !isSame) return;
    const { sources, tools } = this.#found;
    const times: number[] = [];
    const state = stateOf(this.#workspace, sources, times);
    // A file that was written since then may be another one than was loaded.
    if (times.some((time) => time > this.#begun - CLOCK_STEP)) return;
    const file = fileIn(this.#workspace);
    try {
      writeFileSync(
        `${file}.${process.pid}`,
        JSON.stringify({ state, sources, tools } satisfies StoredListing),
        {
          mode: 0o600,
        },
      );
      renameSync(`${file}.${process.pid}`, file);
    } catch {
      // A workspace that cannot be written to is loaded each time.
    }
  }
}

/** Milliseconds by which the time of a file may be behind the clock. */
const CLOCK_STEP = 50;

/** All that a listing depends on, as a text. Adds the times of the workspace's files to `times`. */
function stateOf(workspace: string, { folders, files }: Sources, times: number[] = []): string {
  const own = join(import.meta.dirname, "..");
  // The files of an installed program are replaced as a whole; those of a checkout are edited.
  const isCheckout = entryAt(join(own, "main.ts")) !== undefined;
  const program = isCheckout ? below(own, []) : [own, String(entryAt(own)?.mtimeMs)];
  const lines = [
    ...[process.version, environmentState(), storeState(workspace)],
    ...program,
    // The config, `.env`, the files that name MCP servers and APIs, the manifest and lock file of packages.
    ...below(workspace, times, false),
    ...folders.flatMap((folder) => [folder, ...below(folder, times)]),
    ...[...files, join(workspace, "node_modules", ".package-lock.json")].map((file) =>
      stamp(entryAt(file), times),
    ),
  ];
  return lines.join("\n");
}

/** The database with switches and skills. SQLite writes into the second file first. */
function storeState(workspace: string): string {
  const file = join(workspace, ".toolrack", "toolrack.db");
  return [file, `${file}-wal`].map((path) => stamp(entryAt(path), [])).join();
}

/** What is in a folder; of folders in it their names, or all that is below them. */
function below(folder: string, times: number[], isDeep = true): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return isDeep ? [entry.name, ...below(path, times)] : [entry.name];
      const found = entryAt(path);
      // Links to folders may lead in a circle: nothing is stored where there are any.
      if (isDeep && found?.isDirectory() === true) times.push(Number.POSITIVE_INFINITY);
      return [`${entry.name} ${stamp(found, times)}`];
    });
  } catch {
    return ["none"];
  }
}

function stamp(entry: Stats | undefined, times: number[]): string {
  if (entry === undefined) return "none";
  // A folder changes when something is made in it, which is looked at by itself.
  if (entry.isDirectory()) return "folder";
  times.push(entry.mtimeMs);
  return `${entry.mtimeMs} ${entry.size} ${entry.ino}`;
}

/** What a shell changes by itself. */
const passing = ["_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES"];

/** A number for all variables of the environment: tool files and the config may read any. */
function environmentState(): string {
  const names = Object.keys(process.env).filter((name) => !passing.includes(name));
  const text = names
    .sort()
    .map((name) => `${name}=${process.env[name]}\n`)
    .join("");
  let [one, other] = [0, 1];
  for (let at = 0; at < text.length; at++) {
    one = Math.imul(one ^ text.charCodeAt(at), 0x01000193);
    other = Math.imul(other ^ text.charCodeAt(at), 0x85ebca6b);
  }
  return `${one} ${other}`;
}
