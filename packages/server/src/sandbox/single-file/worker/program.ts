import fs from "node:fs";
import { compileFunction, constants } from "node:vm";
import type { WorkerCall, WorkerProgram } from "../../spec.ts";
import type { ThrownData } from "../../thrown.ts";
import type {
  ExecuteOutcome,
  ExecuteParams,
  RawDescription,
  ToolSource,
  WorkerSettings,
} from "../messages.ts";
import { describeFailure, encodeJson } from "./plain-data.ts";
import { CurrentCall, ToolStorage, toolApi } from "./tool-api.ts";
import { bridgeMatchOf, isRegExp, matchError, type ToolObject } from "./tool-bridge.ts";
import { type ToolModules, toolModules } from "./tool-modules.ts";

/** The program that a worker runs for one single-file tool. The file is not evaluated before `init`. */
export function createProgram(source: ToolSource, require: NodeJS.Require): WorkerProgram {
  const calls = new CurrentCall();
  let settings: WorkerSettings;
  let storage: ToolStorage;
  let modules: ToolModules;
  let tool: ToolObject | undefined;

  const load = (): ToolObject => {
    const loaded = loadTool(source, modules);
    const api = toolApi(loaded, { settings, calls, storage, modules });
    Object.defineProperty(loaded, "api", { value: api, writable: true, configurable: true });
    return loaded;
  };

  return {
    async init(given, host) {
      settings = given as WorkerSettings; // The host's own words.
      calls.host = host;
      storage = new ToolStorage(settings.storage, calls, settings.isDryRun);
      modules = toolModules({ require, ...settings });
      setGlobals(modules, settings);
      if (settings.isDescribing) return;
      tool = load();
      try {
        await callOptional(tool, "init");
      } catch (thrown) {
        const { message, stack } = describeFailure(thrown);
        throw Object.assign(new Error(`init() failed: ${message}`), stack === undefined ? {} : { stack });
      }
    },

    async cleanup() {
      if (tool !== undefined) await callOptional(tool, "cleanup");
    },

    methods: {
      describe: (_, call) =>
        calls.run(call, async (): Promise<RawDescription> => {
          try {
            const described = await describeTool(load());
            return { ...described, missing: [...modules.missing] };
          } catch (thrown) {
            const failure = describeFailure(thrown);
            return { answers: {}, thrown: {}, members: {}, missing: [...modules.missing], failure };
          }
        }),
      execute: (params, call: WorkerCall) =>
        // The host's own words.
        calls.run(call, () => execute(tool!, params as ExecuteParams, storage)),
    },
  };
}

async function execute(
  tool: ToolObject,
  params: ExecuteParams,
  storage: ToolStorage,
): Promise<ExecuteOutcome> {
  await storage.refresh(params.storageVersion);
  try {
    return await runTool(tool, params.input);
  } finally {
    await storage.settle();
  }
}

/** Throws plain data: the tool's error, with the author's advice where there is some. */
async function runTool(tool: ToolObject, input: ExecuteParams["input"]): Promise<ExecuteOutcome> {
  try {
    const reasons = refusals(await callOptional(tool, "validate", input));
    if (reasons.length > 0) return { type: "invalid", reasons };
    return toOutcome(await callOptional(tool, "execute", input));
  } catch (thrown) {
    const error = describeFailure(thrown);
    const business = bridgeMatchOf(thrown) ?? matchError(await businessErrors(tool), thrown, error);
    throw { ...error, data: { business } };
  }
}

function toOutcome(value: unknown): ExecuteOutcome {
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) {
    const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
    return { type: "bytes", base64: Buffer.from(bytes).toString("base64") };
  }
  if (typeof value === "bigint" || typeof value === "symbol" || typeof value === "function") {
    return { type: "value", value: String(value) };
  }
  return { type: "value", value: encodeJson(value) };
}

/** `validate` may return nothing, a boolean, or `{ valid, errors }`. */
function refusals(answer: unknown): string[] {
  if (answer === false) return ["validate() refused them without saying why."];
  if (typeof answer !== "object" || answer === null) return [];
  const { valid, errors, error }: { valid?: unknown; errors?: unknown; error?: unknown } = answer;
  if (valid !== false) return [];
  const reasons = [errors ?? error ?? "validate() refused them without saying why."].flat();
  return reasons.map((reason) => (typeof reason === "string" ? reason : describeFailure(reason).message));
}

/** Called only after a failure. Its own failure is ignored. */
async function businessErrors(tool: ToolObject): Promise<unknown> {
  try {
    return await callOptional(tool, "getBusinessErrors");
  } catch {
    return [];
  }
}

async function callOptional(tool: ToolObject, name: string, ...args: unknown[]): Promise<unknown> {
  const method = tool[name];
  return typeof method === "function" ? method.apply(tool, args) : undefined;
}

/** Sets the globals that tool files expect beside Node's own. */
function setGlobals({ importx }: ToolModules, { environment }: WorkerSettings): void {
  Object.assign(globalThis, { importx, loadModule: importx, importModule: importx });
  for (const [name, value] of Object.entries(environment)) {
    process.env[name] = typeof value === "string" ? value : JSON.stringify(value);
  }
}

const NOTHING =
  "It exports no tool. Write module.exports = { getMetadata() {…}, getSchema() {…}, execute() {…} }.";

/** The parameters that Node's modules have too, whose names a file cannot declare again. */
const wrapperStart = "return function (exports, require, module) {";

/** Evaluates the file and returns the object whose methods are the tool. Throws what the file throws. */
function loadTool({ code, filename }: ToolSource, { require, importx }: ToolModules): ToolObject {
  const module: { exports: unknown } = { exports: {} };
  // Variables of an outer function, so that a file may declare the same names: `const fs = require("fs")`.
  const outer = {
    __filename: filename,
    __dirname: process.cwd(),
    __toolrack_import_meta_url: `file://${filename}`,
    process: Object.create(process, { exit: { value: refuseExit } }),
    fs,
    importx,
    loadModule: importx,
    importModule: importx,
  };
  const wrap = compileFunction(`${wrapperStart}${code}\n}`, Object.keys(outer), {
    filename,
    columnOffset: -wrapperStart.length,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const run = wrap(...Object.values(outer));
  run.call(module.exports, module.exports, require, module);
  return toObject(module.exports);
}

function refuseExit(): never {
  throw new Error("process.exit() is not available to a tool. Return or throw instead.");
}

/** Returns an object as it is, an instance of a class, or the default export or all exports of an ES module. */
function toObject(exported: unknown): ToolObject {
  if (typeof exported === "function") return fromFunction(exported);
  if (typeof exported !== "object" || exported === null) throw new TypeError(NOTHING);
  const members = exported as ToolObject; // Any object has members.
  if (typeof members.execute !== "function" && members.default !== undefined)
    return toObject(members.default);
  if (!hasMembers(members)) throw new TypeError(NOTHING);
  // Exports of an ES module are read-only, and a frozen object takes no `api`.
  if ("__esModule" in members) return { ...members };
  return Object.isExtensible(members) ? members : Object.create(members);
}

// biome-ignore lint/complexity/noBannedTypes: whatever the file exports that can be called.
function fromFunction(exported: Function): ToolObject {
  const { prototype } = exported;
  const isClass = typeof prototype?.execute === "function" || typeof prototype?.getMetadata === "function";
  if (isClass) return Reflect.construct(exported, []);
  const members = exported as unknown as ToolObject; // A function has members like any object.
  if (typeof members.execute === "function") return members;
  throw new TypeError(NOTHING);
}

function hasMembers(members: ToolObject): boolean {
  return ["execute", "getMetadata", "getSchema"].some((name) => name in members);
}

const describingMethods = [
  "getMetadata",
  "getSchema",
  "getDependencies",
  "getBusinessErrors",
  "getBridges",
] as const;
const contractMethods = [
  ...describingMethods,
  "execute",
  "init",
  "cleanup",
  "validate",
  "getMockArgs",
  "getBridgeErrors",
] as const;

/** Calls the tool's describing methods. Their results become JSON; matchers of errors become text. */
async function describeTool(tool: ToolObject): Promise<Omit<RawDescription, "missing">> {
  const answers: Record<string, unknown> = {};
  const thrown: Record<string, ThrownData> = {};
  const members: Record<string, string> = {};
  for (const name of contractMethods) if (tool[name] !== undefined) members[name] = typeof tool[name];
  for (const name of describingMethods) {
    const method = tool[name];
    if (typeof method !== "function") continue;
    try {
      answers[name] = printable(name, await method.call(tool)) ?? null;
    } catch (error) {
      thrown[name] = describeFailure(error);
    }
  }
  return { answers, thrown, members };
}

function printable(name: (typeof describingMethods)[number], answer: unknown): unknown {
  if (name === "getBusinessErrors" && Array.isArray(answer)) return answer.map(printableEntry);
  if (name === "getBridges" && typeof answer === "object" && answer !== null) return Object.keys(answer);
  return encodeJson(answer);
}

function printableEntry(entry: unknown): unknown {
  if (typeof entry !== "object" || entry === null) return encodeJson(entry);
  const { match, ...rest }: { match?: unknown } = entry;
  const plain = Object(encodeJson(rest));
  return match === undefined ? plain : { ...plain, match: printableMatch(match) };
}

function printableMatch(match: unknown): unknown {
  if (Array.isArray(match)) return match.map(printableMatch).join(" | ");
  if (isRegExp(match)) return String(match);
  return typeof match === "function" ? "a function" : encodeJson(match);
}
