import fs from "node:fs";
import { compileFunction, constants } from "node:vm";
import { isRecord } from "../../../helpers/values.ts";
import type { ThrownData } from "../../remote-error.ts";
import type { WorkerProgram } from "../../sandbox-types.ts";
import type {
  ExecuteOutcome,
  ExecuteParams,
  RawDescription,
  ToolSource,
  WorkerSettings,
} from "../messages.ts";
import { bytesOf, describeFailure, encodeJson } from "./plain-data.ts";
import { CurrentCall, ToolStorage, toolApi } from "./tool-api.ts";
import { bridgeMatchOf, callOptional, isRegExp, matchError, type ToolObject } from "./tool-bridge.ts";
import { type ToolModules, toolModules } from "./tool-modules.ts";

/** The program that a worker runs for one single-file tool. The file is not evaluated before `init`. */
export function createProgram(source: ToolSource, require: NodeJS.Require): WorkerProgram {
  let calls: CurrentCall;
  let storage: ToolStorage;
  let modules: ToolModules;
  let load: () => ToolObject;
  let tool: ToolObject | undefined;

  return {
    async init(given, host) {
      const settings = given as WorkerSettings; // The server sends the settings in this form.
      calls = new CurrentCall(host);
      storage = new ToolStorage(settings.storage, calls, settings.isDryRun);
      modules = toolModules(require, settings.dependencies, settings.isDescribing);
      setGlobals(modules, settings);
      load = () => {
        const loaded = loadTool(source, modules);
        const api = toolApi(loaded, settings, calls, storage, modules);
        return Object.defineProperty(loaded, "api", { value: api, writable: true, configurable: true });
      };
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
          let described: Omit<RawDescription, "missing">;
          try {
            described = await describeTool(load());
          } catch (thrown) {
            described = { answers: {}, thrown: {}, members: {}, failure: describeFailure(thrown) };
          }
          return { ...described, missing: [...modules.missing] };
        }),
      execute: (params, call) =>
        calls.run(call, async () => {
          const { input, storageVersion } = params as ExecuteParams; // The server sends the parameters in this form.
          await storage.refresh(storageVersion);
          try {
            return await runTool(tool!, input);
          } finally {
            await storage.settle();
          }
        }),
    },
  };
}

/**
 * Checks the arguments with `validate` and runs the tool. Throws the tool's error as plain data. Its
 * `data.business` is the matching failure that the author declared, if there is one.
 */
async function runTool(tool: ToolObject, input: ExecuteParams["input"]): Promise<ExecuteOutcome> {
  try {
    const reasons = refusals(await callOptional(tool, "validate", input));
    if (reasons.length > 0) return { type: "invalid", reasons };
    return toOutcome(await callOptional(tool, "execute", input));
  } catch (thrown) {
    const error = describeFailure(thrown);
    const declared = () => callOptional(tool, "getBusinessErrors").catch(() => []);
    const business = bridgeMatchOf(thrown) ?? matchError(await declared(), thrown, error);
    throw { ...error, data: { business } };
  }
}

function toOutcome(value: unknown): ExecuteOutcome {
  if (value instanceof Uint8Array || value instanceof ArrayBuffer)
    return { type: "bytes", base64: bytesOf(value).toString("base64") };
  if (typeof value === "symbol" || typeof value === "function")
    return { type: "value", value: String(value) };
  return { type: "value", value: encodeJson(value) };
}

/** Why `validate` refused the arguments, if so. It may return nothing, a boolean, or `{ valid, errors }`. */
function refusals(answer: unknown): string[] {
  const { valid, errors, error } = isRecord(answer) ? answer : { valid: answer };
  if (valid !== false) return [];
  const reasons = [errors ?? error ?? "validate() refused them without saying why."].flat();
  return reasons.map((reason) => (typeof reason === "string" ? reason : describeFailure(reason).message));
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

/** The start of the function around a file. Its parameters cannot be declared again, as in Node's modules. */
const wrapperStart = "return function (exports, require, module) {";

/** Evaluates the file and returns the object whose methods are the tool. Throws what the file throws. */
function loadTool({ code, filename }: ToolSource, { require, importx }: ToolModules): ToolObject {
  const module: { exports: unknown } = { exports: {} };
  // These are variables of an outer function, so that a file may declare the same names: `const fs =
  // require("fs")`.
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

/**
 * Finds the tool in a file's exports: the exported object itself, an instance of an exported class, or the
 * default export or all exports of an ES module.
 */
function toObject(exported: unknown): ToolObject {
  if (typeof exported === "function") return fromFunction(exported);
  if (typeof exported !== "object" || exported === null) throw new TypeError(NOTHING);
  const members = exported as ToolObject; // Any object has members.
  if (typeof members.execute !== "function" && members.default !== undefined)
    return toObject(members.default);
  if (!["execute", "getMetadata", "getSchema"].some((name) => name in members)) throw new TypeError(NOTHING);
  // `api` can be added neither to the exports of an ES module, which are read-only, nor to a frozen object.
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

const describingMethods = [
  "getMetadata",
  "getSchema",
  "getDependencies",
  "getBusinessErrors",
  "getBridges",
] as const;
const otherMethods = ["execute", "init", "cleanup", "validate", "getMockArgs", "getBridgeErrors"] as const;

/** Calls the tool's describing methods. Their results become JSON; matchers of errors become text. */
async function describeTool(tool: ToolObject): Promise<Omit<RawDescription, "missing">> {
  const answers: Record<string, unknown> = {};
  const thrown: Record<string, ThrownData> = {};
  const members: Record<string, string> = {};
  for (const name of [...describingMethods, ...otherMethods])
    if (tool[name] !== undefined) members[name] = typeof tool[name];
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
  if (!isRecord(entry)) return encodeJson(entry);
  const { match, ...rest } = entry;
  const plain = Object(encodeJson(rest));
  return match === undefined ? plain : { ...plain, match: printableMatch(match) };
}

function printableMatch(match: unknown): unknown {
  if (Array.isArray(match)) return match.map(printableMatch).join(" | ");
  if (isRegExp(match)) return String(match);
  return typeof match === "function" ? "a function" : encodeJson(match);
}
