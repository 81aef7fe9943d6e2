import type { WorkerSettings } from "../messages.ts";
import type { CurrentCall } from "./current-call.ts";
import type { ToolObject } from "./load-tool.ts";
import { ToolBridge } from "./tool-bridge.ts";
import { ToolEnvironment } from "./tool-environment.ts";
import { toolLogger } from "./tool-logger.ts";
import type { ToolModules } from "./tool-require.ts";
import type { ToolStorage } from "./tool-storage.ts";

export interface ToolApiParts {
  readonly settings: WorkerSettings;
  readonly calls: CurrentCall;
  readonly storage: ToolStorage;
  readonly modules: ToolModules;
}

const never = new AbortController().signal;

/** The version of this interface, as tools ask for it. */
const API_VERSION = "2.0.0";

/** Everything that a tool finds in `this.api`. One for a worker; what belongs to a call is found by the call. */
export function toolApi(tool: ToolObject, { settings, calls, storage, modules }: ToolApiParts): object {
  const { tool: name, isDryRun, environment } = settings;
  const api = {
    logger: toolLogger(calls, name),
    environment: new ToolEnvironment(environment, calls, isDryRun),
    storage,
    bridge: new ToolBridge(tool, (): unknown => tool.api, calls, isDryRun),
    importx: modules.importx,
    moduleImport: modules.importx,
    /** Calls another tool of the rack. */
    callTool: (id: string, params: unknown = {}) => calls.request("callTool", { id, params }, "callTool"),
    /** Runs a program in a sandbox of its own. */
    execute: (command: string, args: unknown = [], options: unknown = {}) =>
      calls.request("execute", { command, args, options }, "api.execute"),
    progress: (progress: number, total?: number, message?: string) =>
      calls.notify("progress", { progress, total, message }),
    /** Aborted when the caller gave up. */
    get signal(): AbortSignal {
      return calls.get()?.signal ?? never;
    },
    getInfo: () => ({
      id: name,
      sandboxPath: process.cwd(),
      runtime: { node: process.version, platform: process.platform, arch: process.arch },
    }),
    getVersion: () => API_VERSION,
    /** Older hosts bound the tool by this; here it is bound already. */
    setToolInstance: () => {},
  };
  return api;
}
