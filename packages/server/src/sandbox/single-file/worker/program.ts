import type { WorkerCall, WorkerProgram } from "../../sandbox.ts";
import type {
  ExecuteOutcome,
  ExecuteParams,
  RawDescription,
  ToolSource,
  WorkerSettings,
} from "../messages.ts";
import { CurrentCall } from "./current-call.ts";
import { describeThrown } from "./describe-thrown.ts";
import { describeTool } from "./describe-tool.ts";
import { encodeJson } from "./encode-json.ts";
import { loadTool, type ToolObject } from "./load-tool.ts";
import { matchError } from "./match-error.ts";
import { toolApi } from "./tool-api.ts";
import { bridgeMatchOf } from "./tool-bridge.ts";
import { type ToolModules, toolModules } from "./tool-require.ts";
import { ToolStorage } from "./tool-storage.ts";

/** The program that a worker runs for one single-file tool. Nothing of the file is evaluated before `init`. */
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
      surround(modules, settings);
      if (settings.isDescribing) return;
      tool = load();
      try {
        await callOptional(tool, "init");
      } catch (thrown) {
        const { message, stack } = describeThrown(thrown);
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
            const failure = describeThrown(thrown);
            return { answers: {}, thrown: {}, members: {}, missing: [...modules.missing], failure };
          }
        }),
      execute: (params, call: WorkerCall) =>
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
  const outcome = await attempt(tool, params.input);
  try {
    await storage.settle();
    return outcome;
  } catch (thrown) {
    return { type: "error", error: describeThrown(thrown) };
  }
}

async function attempt(tool: ToolObject, input: ExecuteParams["input"]): Promise<ExecuteOutcome> {
  try {
    const reasons = refusals(await callOptional(tool, "validate", input));
    if (reasons.length > 0) return { type: "invalid", reasons };
    return toOutcome(await callOptional(tool, "execute", input));
  } catch (thrown) {
    const error = describeThrown(thrown);
    const business = bridgeMatchOf(thrown) ?? matchError(await businessErrors(tool), thrown, error);
    return { type: "error", error, ...(business === undefined ? {} : { business }) };
  }
}

function toOutcome(value: unknown): ExecuteOutcome {
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) {
    const bytes = value instanceof ArrayBuffer ? Buffer.from(value) : Buffer.from(value);
    return { type: "bytes", base64: bytes.toString("base64") };
  }
  if (typeof value === "bigint" || typeof value === "symbol" || typeof value === "function") {
    return { type: "value", value: String(value) };
  }
  return { type: "value", value: encodeJson(value) };
}

/** `validate` may answer nothing, a boolean, or `{ valid, errors }`. */
function refusals(answer: unknown): string[] {
  if (answer === false) return ["validate() refused them without saying why."];
  if (typeof answer !== "object" || answer === null) return [];
  const { valid, errors, error } = answer as { valid?: unknown; errors?: unknown; error?: unknown };
  if (valid !== false) return [];
  const reasons = [errors ?? error ?? "validate() refused them without saying why."].flat();
  return reasons.map((reason) => (typeof reason === "string" ? reason : describeThrown(reason).message));
}

/** Asked for only when something failed. One that fails itself says nothing about the failure at hand. */
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

/** The globals that these files expect beside Node's own. */
function surround({ importx }: ToolModules, { environment }: WorkerSettings): void {
  Object.assign(globalThis, { importx, loadModule: importx, importModule: importx });
  for (const [name, value] of Object.entries(environment)) {
    process.env[name] = typeof value === "string" ? value : JSON.stringify(value);
  }
}
