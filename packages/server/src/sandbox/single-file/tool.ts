import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import {
  BusinessError,
  InvalidArgumentError,
  type JsonSchemaObject,
  type ProgressUpdate,
  type ToolContext,
  type ToolError,
  ToolExecutionError,
  type ToolInfo,
} from "@toolrack/core";
import { declaresSecret, resolveEnvironment } from "../../access/index.ts";
import { type SandboxGrant, toolMatcher, type WorkerLimits } from "../../config/index.ts";
import { asRecord, defined, type StackMapper } from "../../helpers/index.ts";
import type { DataFolders } from "../data-folder.ts";
import { RemoteError } from "../remote-error.ts";
import type {
  DataFolder,
  Invocation,
  LogLine,
  OpenFolder,
  ProgramSpec,
  Sandbox,
  WorkerSpec,
} from "../sandbox-types.ts";
import { readLog } from "../worker.ts";
import type { DescribedFile } from "./description.ts";
import { type ExecuteParams, readMatch, type StorageChange, type WorkerSettings } from "./messages.ts";
import type { KeptItems } from "./tool-storage.ts";

/** Reads and sets the variables of tools, by the tool's name. */
export interface ToolVariables {
  /** `isSecret`: the tool declares the variable as a secret. */
  get(tool: string, name: string, isSecret: boolean): Promise<string | undefined>;
  /** Reads all variables anew, which `get` answers from memory. */
  refresh(): Promise<void>;
  /** An undefined value removes the variable. */
  set(tool: string, name: string, value: string | undefined, isSecret: boolean): Promise<void>;
}

export interface SingleFileToolParts {
  readonly name: string;
  readonly file: DescribedFile;
  /** The file name that stack traces show. */
  readonly filename: string;
  readonly code: string;
  readonly hosts: readonly string[];
  readonly grant: SandboxGrant;
  readonly isForeign: boolean;
  readonly limits: Partial<WorkerLimits>;
  readonly sandbox: () => Promise<Sandbox>;
  readonly variables: ToolVariables;
  readonly items: KeptItems;
  readonly data: DataFolders;
  /** Whether the tool could write files, and so needs its data folder. */
  readonly usesFiles: boolean;
  /** Finds the folders of the workspace that the operator opened for the tool. Called before the first call. */
  readonly folders: () => Promise<readonly OpenFolder[]>;
  /** An empty folder: the working directory of programs that the tool starts in a dry run. */
  readonly emptyFolder: string;
  readonly stacks: StackMapper;
  readonly log: (line: LogLine, context: ToolContext<never> | undefined) => void;
}

/** How many programs of one tool run at once; each may use as much memory as the tool. */
const MOST_PROGRAMS = 4;
const PROGRAM_TIMEOUT_MS = 30_000;
/** The longest time limit that a tool can set for a program. */
const LONGEST_TIMEOUT_MS = 24 * 60 * 60_000;

/** One version of one tool. Its workers know nothing of other tools. */
export class SingleFileTool {
  readonly #parts: SingleFileToolParts;
  #folders: readonly OpenFolder[] | undefined;
  readonly #isCallable: (tool: ToolInfo) => boolean;
  /** The current spec for real calls and the one for dry runs. A changed environment makes a new spec. */
  readonly #specs = new Map<"real" | "dry", { readonly given: string; readonly spec: WorkerSpec }>();

  constructor(parts: SingleFileToolParts) {
    this.#parts = parts;
    this.#isCallable = toolMatcher(parts.grant.tools);
  }

  async run(context: ToolContext<never>): Promise<unknown> {
    const { name, file, items, sandbox, stacks } = this.#parts;
    const isDryRun = context.extra.dryRun === true;
    const { environment: declared } = file.description;
    const environment = declared === undefined ? {} : await this.#environment(declared, isDryRun);
    const params: ExecuteParams = { input: context.input, storageVersion: await items.refresh() };
    const box = await sandbox();
    this.#folders ??= await this.#parts.folders();
    const spec = this.#specFor(environment, isDryRun, box, this.#folders);
    try {
      const outcome = await box.invoke(spec, {
        method: "execute",
        params,
        signal: context.signal,
        ...this.#hostFor(context, isDryRun, box, spec),
      });
      return readOutcome(outcome, name);
    } catch (thrown) {
      throw thrown instanceof RemoteError ? toolErrorOf(thrown, stacks, this.#fileAdvice(thrown)) : thrown;
    }
  }

  /** Lets the tool's workers end once their calls have ended. */
  async retire(): Promise<void> {
    const keys = [...this.#specs.values()].map(({ spec }) => spec.key);
    if (keys.length > 0) (await this.#parts.sandbox()).retire(keys);
  }

  #environment(schema: JsonSchemaObject, isLenient: boolean): Promise<Record<string, unknown>> {
    const { name, grant, variables } = this.#parts;
    const lookUp = async (key: string, isSecret: boolean) =>
      (await variables.get(name, key, isSecret)) ?? grant.environment?.[key];
    const refresh = () => variables.refresh();
    return resolveEnvironment({ tool: name, schema, lookUp, refresh, isLenient });
  }

  #specFor(
    environment: Record<string, unknown>,
    isDryRun: boolean,
    box: Sandbox,
    opened: readonly OpenFolder[],
  ): WorkerSpec {
    const { name, file, filename, code, isForeign, limits, items, log } = this.#parts;
    const kind = isDryRun ? "dry" : "real";
    const given = JSON.stringify(environment);
    const before = this.#specs.get(kind);
    if (before?.given === given) return before.spec;
    // A worker keeps its environment, so one with old values must not serve another call.
    if (before !== undefined) box.retire([before.spec.key]);
    const hosts = isDryRun ? [] : this.#parts.hosts;
    // A dry run writes nothing that lasts.
    const folders = isDryRun ? opened.map((folder) => ({ ...folder, isWritable: false })) : opened;
    const parts = [file.hash, file.dependencies ?? "", given, hosts.join(), String(isDryRun)];
    for (const { path, isWritable } of folders) parts.push(path, String(isWritable));
    const version = createHash("sha256").update(parts.join("\0")).digest("hex").slice(0, 32);
    const dependencies = Object.keys(file.description.dependencies);
    const settings = { tool: name, isDescribing: false, isDryRun, environment, dependencies };
    const spec: WorkerSpec = {
      key: `${name}:${version}`,
      label: name,
      code,
      filename,
      hosts,
      foreign: isForeign,
      onLog: (line) => log(line, undefined),
      // A dry run's worker ends with its call, so that nothing of it remains.
      limits: { concurrency: 1, ...limits, ...(isDryRun ? { maxCallsPerWorker: 1 } : {}) },
      ...defined({
        dependencies: file.dependencies,
        data: isDryRun ? undefined : this.#openData(folders),
      }),
      folders,
      // A getter, so that a worker begins with the storage as it is when the worker starts.
      get settings(): WorkerSettings {
        return { ...settings, storage: items.snapshot() };
      },
    };
    this.#specs.set(kind, { given, spec });
    return spec;
  }

  /** The data folder of the tool's workers. A tool that needs none starts in a worker that already waits. */
  #openData(folders: readonly OpenFolder[]): DataFolder | undefined {
    const { name, usesFiles, data } = this.#parts;
    return usesFiles || folders.length > 0 ? data.open(name) : undefined;
  }

  /** What to tell the author of a tool that was refused a file. */
  #fileAdvice({ code, message }: RemoteError): string | undefined {
    const isRefusal = ["ERR_ACCESS_DENIED", "EACCES", "EROFS"].includes(String(code));
    if (!isRefusal || !/^(?:ENOENT|EACCES|EROFS)/.test(message)) return undefined;
    const { name } = this.#parts;
    const open = (this.#folders ?? []).map(
      ({ place, isWritable }) => `${place}${isWritable ? "" : " (read-only)"}`,
    );
    const others = open.length === 0 ? "" : `, and in ${open.join(", ")}`;
    return `${name} may use files in its own data folder, which is its working directory${others}. The operator can open a folder of the workspace in the config: ${folderGrantAdvice(name)}.`;
  }

  /** Returns the handlers of a worker's messages during one call. All data comes from unreviewed code. */
  #hostFor(
    context: ToolContext<never>,
    isDryRun: boolean,
    box: Sandbox,
    spec: WorkerSpec,
  ): Required<Pick<Invocation, "onRequest" | "onNotify">> {
    const { items, log, file, name: tool, variables } = this.#parts;

    const setVariable = async (name: unknown, value: string | undefined) => {
      const known = textOf(name, "the name of a variable");
      if (!Object.hasOwn(file.description.environment?.properties ?? {}, known)) {
        throw new Error(
          `"${known}" is not in the environment that getSchema() of "${tool}" declares. Add it there.`,
        );
      }
      // Toolrack's code in a dry run's worker never asks for this, but the tool's own code could.
      if (!isDryRun) await variables.set(tool, known, value, declaresSecret(context.tool, known));
    };

    return {
      onRequest: async (method, params) => {
        const given = asRecord(params);
        switch (method) {
          case "callTool":
            return this.#callTool(context, isDryRun, textOf(given.id, "the name of a tool"), given.params);
          case "execute":
            return this.#runProgram(box, spec, isDryRun, context.signal, given);
          case "storage.read":
            return items.snapshot();
          case "storage.settle":
            return items.settle(Number(given.version), Number(given.changes));
          case "environment.set":
            return setVariable(given.name, textOf(given.value, "a value"));
          case "environment.remove":
            return setVariable(given.name, undefined);
          default:
            throw new Error(`The host has no "${method}".`);
        }
      },
      onNotify: (method, params) => {
        const given = asRecord(params);
        if (method === "log") log(readLog(given), context);
        if (method === "progress") context.progress(toProgress(given));
        const change = method === "storage" && !isDryRun ? toChange(given) : undefined;
        if (change !== undefined) items.apply(change);
      },
    };
  }

  /** Makes a nested call through the pipeline, with no more rights than the caller has. */
  async #callTool(
    context: ToolContext<never>,
    isDryRun: boolean,
    name: string,
    params: unknown = {},
  ): Promise<unknown> {
    const tool = this.#parts.name;
    const wanted = context.registry.get(name);
    if (wanted !== undefined && wanted.metadata.singleFile === undefined) {
      if (isDryRun) {
        throw new Error(`The tool "${name}" was not called: it has no dry run, and this is one.`);
      }
      if (!this.#isCallable(wanted)) {
        const message = `The tool "${name}" runs outside the sandbox, and "${tool}" was not granted to call it. The operator can grant it in the config: sandbox: { grants: { "${tool}": { tools: ["${wanted.name}"] } } }.`;
        throw Object.assign(new Error(message), { code: "TOOL_NOT_GRANTED" });
      }
    }
    // The tool gets the value that the other tool's code returned, not the whole result.
    const { structured, content } = await context.call(name, params ?? {});
    return structured ?? content;
  }

  async #runProgram(
    box: Sandbox,
    { hosts, foreign, limits, folders = [] }: WorkerSpec,
    isDryRun: boolean,
    signal: AbortSignal,
    { command, args, options }: Record<string, unknown>,
  ): Promise<unknown> {
    const { input, timeout, env } = asRecord(options);
    const { name, data: all, emptyFolder } = this.#parts;
    const timeoutMs =
      typeof timeout === "number" && timeout > 0 ? Math.min(timeout, LONGEST_TIMEOUT_MS) : PROGRAM_TIMEOUT_MS;
    const variables = Object.entries(asRecord(env)).map(([key, value]) => [key, String(value)]);
    const data = isDryRun ? undefined : all.open(name);
    const program: ProgramSpec = {
      label: name,
      command: textOf(command, "a command"),
      args: Array.isArray(args) ? args.map(String) : [],
      directory: data?.path ?? emptyFolder,
      environment: Object.fromEntries(variables),
      hosts,
      foreign,
      limits: { ...limits, timeoutMs, atOnce: MOST_PROGRAMS },
      folders,
      ...defined({ data }),
    };
    if (isDryRun) await mkdir(emptyFolder, { recursive: true });
    const result = await box.run(program, typeof input === "string" ? input : "", signal);
    const { exitCode, stdout, stderr } = result;
    return { success: exitCode === 0, exitCode, stdout, stderr };
  }
}

/** The part of a config that opens a folder for a tool. */
export function folderGrantAdvice(tool: string): string {
  return `sandbox: { grants: { "${tool}": { folders: ["FOLDER", { path: "FOLDER", write: true }] } } }`;
}

function toProgress({ progress, total, message }: Record<string, unknown>): ProgressUpdate {
  return {
    progress: typeof progress === "number" ? progress : 0,
    ...(typeof total === "number" && { total }),
    ...(typeof message === "string" && { message }),
  };
}

function toChange({ type, key, value }: Record<string, unknown>): StorageChange | undefined {
  if (type === "clear") return { type };
  if (typeof key !== "string") return undefined;
  if (type === "remove") return { type, key };
  return type === "set" ? { type, key, value } : undefined;
}

function textOf(value: unknown, what: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw new TypeError(`${what} must be a text that is not empty.`);
}

function readOutcome(outcome: unknown, tool: string): unknown {
  const { type, value, base64, reasons } = asRecord(outcome);
  if (type === "value") return value;
  if (type === "bytes") return Buffer.from(String(base64), "base64");
  if (type !== "invalid")
    throw new Error(`The worker of "${tool}" answered with something that is no answer.`);
  // The tool's own `validate` refused the arguments.
  const said = Array.isArray(reasons) ? reasons.map(String) : [];
  const issues = said.map((message) => ({ path: "", expected: "", received: "", message }));
  throw new InvalidArgumentError(
    `The tool "${tool}" refused the arguments, and did not run. Correct these and call again:\n${said.map((reason) => `- ${reason}`).join("\n")}`,
    { data: { issues } },
  );
}

/** Turns what a tool threw into the error of its call, with the author's advice for declared failures. */
function toolErrorOf(thrown: RemoteError, stacks: StackMapper, advice?: string): ToolError {
  const cause = stacks.apply(thrown);
  const said = thrown.message || "The tool failed without saying why.";
  const message = advice === undefined ? said : `${said}\n${advice}`;
  const { business } = asRecord(thrown.data);
  const causeCode = thrown.code === undefined ? {} : { causeCode: String(thrown.code) };
  let error: ToolError;
  if (business === undefined) error = new ToolExecutionError(message, { cause, data: causeCode });
  else {
    const match = readMatch(business);
    const { code, description, solution } = match;
    const what = description === undefined ? message : `${description} (${message})`;
    const words = `${code}: ${what}${solution === undefined ? "" : `\n${solution}`}`;
    error = new BusinessError(words, { cause, data: { ...match, ...causeCode } });
  }
  if (cause.stack !== undefined) error.stack = cause.stack;
  return error;
}
