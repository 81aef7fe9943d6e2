import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  asRecord,
  defined,
  LoadError,
  reasonOf,
  replaceFile,
  type StackMapper,
} from "../../helpers/index.ts";
import type { DependencyMap, DependencyStore } from "../dependencies.ts";
import { RemoteError, readThrown } from "../remote-error.ts";
import { type Sandbox, SandboxError, type WorkerSpec } from "../sandbox-types.ts";
import {
  checkDependencies,
  checkDescription,
  type Description,
  dependencyFailure,
} from "./checked-description.ts";
import type { RawDescription, ToolSource, WorkerSettings } from "./messages.ts";

interface DescribeParts {
  readonly sandbox: () => Promise<Sandbox>;
  readonly dependencies: DependencyStore;
  readonly cache: DescriptionCache;
  readonly stacks: StackMapper;
  /** How often describing a file timed out, by the cache key of the description. */
  readonly late: Map<string, number>;
}

export interface DescribedFile {
  readonly description: Description;
  /** The folder that holds `node_modules`. Undefined when the tool has no dependencies. */
  readonly dependencies?: string;
  /** The hash of the file's name and content. */
  readonly hash: string;
}

const TIME_LIMIT_MS = 10_000;
/**
 * How often a file that times out is tried: more than once, because the machine may have been busy, but not
 * for ever, because a file that loops delays every reload.
 */
const MOST_ATTEMPTS = 3;
const KEEP_FAST = "Keep the top of the file, getMetadata() and getSchema() free of waiting and long work.";

/**
 * Describes a file by calling its methods in a worker without network, settings or secrets. Installs its dependencies.
 * Throws `LoadError`.
 */
export async function describeFile(
  source: ToolSource,
  label: string,
  isForeign: boolean,
  parts: DescribeParts,
): Promise<DescribedFile> {
  const hash = digest(source.filename, source.code);
  const ask = async (folder?: string, dependencies: readonly string[] = []): Promise<RawDescription> => {
    const key = digest(hash, await workerProgram(), process.version, folder ?? "");
    const known = await parts.cache.get(key);
    if (known !== undefined) return known;
    const settings: WorkerSettings = {
      tool: label,
      isDescribing: true,
      isDryRun: true,
      environment: {},
      dependencies,
      storage: { version: 0, items: {} },
    };
    const spec: WorkerSpec = {
      key: `describe:${key}`,
      label,
      code: await workerCode(source),
      filename: source.filename,
      hosts: [],
      settings,
      foreign: isForeign,
      limits: { maxCallsPerWorker: 1, concurrency: 1 },
      ...defined({ dependencies: folder }),
    };
    const box = await parts.sandbox();
    try {
      const signal = AbortSignal.timeout(TIME_LIMIT_MS);
      const raw = readRaw(await box.invoke(spec, { method: "describe", params: {}, signal }));
      // Only complete descriptions are cached, because a failure may be temporary.
      if (raw.failure === undefined && Object.keys(raw.thrown).length === 0) await parts.cache.add(key, raw);
      return raw;
    } catch (thrown) {
      if (!(thrown instanceof Error) || thrown.name !== "TimeoutError") throw failed(thrown);
      const attempts = (parts.late.get(key) ?? 0) + 1;
      parts.late.set(key, attempts);
      throw new LoadError(`It did not say what it is within ${TIME_LIMIT_MS / 1000} s.`, KEEP_FAST, {
        cause: thrown,
        retry: attempts < MOST_ATTEMPTS,
      });
    } finally {
      box.retire([spec.key]);
    }
  };

  let raw = await ask();
  const declared = checkDependencies(raw.answers.getDependencies);
  refuseUndeclared(raw, declared);
  // When no package is missing, an error that the file threw has another cause, which installing packages
  // cannot cure.
  if (raw.missing.length === 0) refuseThrown(raw, source, parts.stacks);
  const names = Object.keys(declared);
  let folder: string | undefined;
  try {
    if (names.length > 0) folder = await parts.dependencies.install(declared, label);
  } catch (thrown) {
    throw dependencyFailure(thrown);
  }
  // A description made with placeholder packages may be wrong, so the tool is described again with the real
  // ones.
  if (raw.missing.length > 0) {
    raw = await ask(folder, names);
    refuseThrown(raw, source, parts.stacks);
  }
  return { description: checkDescription(raw), hash, ...defined({ dependencies: folder }) };
}

function refuseUndeclared({ missing, failure, answers }: RawDescription, declared: DependencyMap): void {
  const undeclared = missing.filter((name) => !Object.hasOwn(declared, name));
  if (undeclared.length === 0) return;
  if (failure !== undefined && answers.getDependencies === undefined) {
    throw new LoadError(
      `It cannot be evaluated before its packages (${missing.join(", ")}) are there: ${failure.message}`,
      "Load them inside execute() with await this.api.importx(name), so that getDependencies() can be asked first.",
    );
  }
  const list = undeclared.map((name) => `"${name}"`).join(", ");
  throw new LoadError(
    `It requires ${list}, which getDependencies() does not declare.`,
    `Add it to getDependencies(): { ${list}: "*" }.`,
  );
}

function refuseThrown(
  { failure, thrown }: RawDescription,
  { filename }: ToolSource,
  stacks: StackMapper,
): void {
  const [method, error] = failure === undefined ? (Object.entries(thrown)[0] ?? []) : [undefined, failure];
  if (error === undefined) return;
  const { name, message } = error;
  const where = defined({ line: stacks.lineOf(new RemoteError(error), filename) });
  const described = name === "Error" ? message : `${name}: ${message}`;
  if (method !== undefined) {
    throw new LoadError(`${method}() threw ${described}`, `Correct ${method}().`, where);
  }
  if (!/exports no tool/.test(message))
    throw new LoadError(described, "Correct the file at this place.", where);
  throw new LoadError(message, "See toolrack new single-file NAME for a file to begin with.", where);
}

function failed(thrown: unknown): LoadError {
  const code = thrown instanceof SandboxError ? thrown.code : undefined;
  const isRefused = code === "sandbox_refused";
  const remedy = isRefused ? "Run toolrack doctor to see what the sandbox needs." : KEEP_FAST;
  return new LoadError(`It could not be asked what it is: ${reasonOf(thrown)}`, remedy, {
    cause: thrown,
    retry: isRefused || code === "sandbox_ended",
  });
}

/** Parses the worker's result, which unreviewed code may have made. Only its form is checked here. */
function readRaw(answer: unknown): RawDescription {
  const { answers, thrown, members, missing, failure } = asRecord(answer);
  const mapped = <Value>(given: unknown, read: (value: unknown) => Value): Record<string, Value> =>
    Object.fromEntries(Object.entries(asRecord(given)).map(([key, value]) => [key, read(value)]));
  return {
    answers: asRecord(answers),
    thrown: mapped(thrown, readThrown),
    members: mapped(members, String),
    missing: Array.isArray(missing) ? missing.map(String) : [],
    ...(failure !== undefined && { failure: readThrown(failure) }),
  };
}

function digest(...parts: readonly string[]): string {
  return createHash("sha256").update(parts.join("\0")).digest("hex").slice(0, 32);
}

/**
 * Keeps descriptions of tools by the content of their files, so that a start of the server needs no sandbox
 * for a file that has not changed.
 */
export class DescriptionCache {
  readonly #folder: string | undefined;
  readonly #known = new Map<string, RawDescription>();

  /** Without a folder the cache lasts as long as the process. */
  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  async get(key: string): Promise<RawDescription | undefined> {
    const known = this.#known.get(key);
    if (known !== undefined || this.#folder === undefined) return known;
    try {
      return JSON.parse(await readFile(join(this.#folder, `${key}.json`), "utf8"));
    } catch {
      return undefined;
    }
  }

  /** Never rejects: a description that is not cached only costs time. */
  async add(key: string, description: RawDescription): Promise<void> {
    this.#known.set(key, description);
    if (this.#folder === undefined) return;
    try {
      await mkdir(this.#folder, { recursive: true });
      await replaceFile(join(this.#folder, `${key}.json`), JSON.stringify(description));
    } catch {
      // A description that could not be cached is no failure: at the next start, the tool is asked again.
    }
  }
}

let bundled: Promise<string> | undefined;

/** Toolrack's part of a worker's code. A change of it invalidates cached descriptions. */
function workerProgram(): Promise<string> {
  bundled ??= bundleProgram();
  return bundled;
}

/** The module that a worker evaluates: Toolrack's program, with the tool's file as text. Nothing of it runs here. */
export async function workerCode(source: ToolSource): Promise<string> {
  // U+2028 and U+2029 are line ends in older JavaScript, so they are escaped.
  const text = JSON.stringify(source).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
  return `${await workerProgram()}\nmodule.exports = module.exports.createProgram(${text}, require);\n`;
}

/** The packed product has the program in one file. The sources are bundled here in the same way. */
async function bundleProgram(): Promise<string> {
  const packed = fileURLToPath(new URL("./worker/program.js", import.meta.url));
  if (existsSync(packed)) return readFile(packed, "utf8");
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [packed.replace(/js$/, "ts")],
    bundle: true,
    write: false,
    format: "cjs",
    platform: "node",
    target: "node24",
    logLevel: "silent",
  });
  return outputFiles[0]!.text;
}
