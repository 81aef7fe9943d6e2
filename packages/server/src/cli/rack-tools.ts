import {
  type JsonSchemaObject,
  Tool,
  type ToolErrorCode,
  type ToolInfo,
  type ToolResult,
  toolErrorCodes,
} from "@toolrack/core";
import { newCallId } from "../calls/index.ts";
import { defined } from "../helpers/values.ts";
import type { App } from "../rack/index.ts";
import type { CallTrace, Page, StoredApproval } from "../store/index.ts";
import type { Cli } from "./cli.ts";
import { CliError, exitCodeOf } from "./cli-error.ts";
import type { ServerClient } from "./server-client.ts";
import { amount } from "./text.ts";
import type { AnsweredTool } from "./tool-lists.ts";
import { talkingLogger, withApp } from "./workspace.ts";

/** A tool of a running server with its schemas. Throws `CliError` when the server has none of this name. */
export async function toolAt(server: ServerClient, name: string): Promise<ToolInfo> {
  const path = `/api/tools/${encodeURIComponent(name)}`;
  const found = await server.ask<AnsweredTool & ToolDetails>(path).catch((thrown) => {
    throw thrown instanceof CliError ? withExitCode(thrown) : thrown;
  });
  const { status, inputSchema = { type: "object" }, outputSchema, aliases, origin, displayName } = found;
  const info = Tool.define({
    name: found.name,
    description: found.description,
    parameters: inputSchema,
    metadata: found.metadata,
    execute: async ({ input }) =>
      (await server.ask<{ result: object }>(`${path}/calls`, "POST", { arguments: input })).result,
  });
  return {
    ...info,
    ...defined({ outputSchema, aliases, origin, displayName }),
    ...(status === "disabled" && { disabled: true }),
  };
}

interface ToolDetails {
  readonly description: string;
  readonly inputSchema?: JsonSchemaObject;
  readonly outputSchema?: JsonSchemaObject;
  readonly metadata: ToolInfo["metadata"];
}

/** Opens the workspace with all the tools that `toolrack serve` would have; see `addOthers`. */
export function withAllTools<Result>(cli: Cli, use: (app: App) => Promise<Result>): Promise<Result> {
  return withApp(cli, {}, async (app) => {
    const remove = await addOthers(cli, app);
    return use(app).finally(remove);
  });
}

/**
 * Adds the tools of an opened workspace that otherwise only a server has: those of MCP servers, which are started for
 * this command, and the one for schedules. Returns a function that ends the servers.
 */
export async function addOthers(cli: Cli, app: App): Promise<() => Promise<void>> {
  const { SCHEDULE_TOOL, scheduleTool } = await import("../calls/index.ts");
  if (app.registry.get(SCHEDULE_TOOL) === undefined) {
    const open = async () => ({ store: await app.store(), book: app.book });
    const tellWhen = () => cli.talk(`Schedules run while a server runs: ${cli.commandLine("serve")}`);
    app.registry.register(scheduleTool(open, tellWhen));
  }
  const { startMcpServers } = await import("../rack/index.ts");
  const servers = await startMcpServers(app, talkingLogger(cli), (started) => {
    const apis = started.filter(({ transport }) => transport === "api").length;
    const counts = [amount(started.length - apis, "MCP server"), amount(apis, "API")];
    const what = counts.filter((count) => !count.startsWith("0 ")).join(" and ");
    const keys = started.map(({ key }) => key).join(", ");
    cli.talk(
      `Starting ${what} for this command: ${keys}. They stay up while a server runs: ${cli.commandLine("serve")}`,
    );
  });
  return async () => servers?.close();
}

export interface CallThere {
  readonly input: Record<string, unknown>;
  readonly timeout?: number | undefined;
  readonly sessionID?: string | undefined;
  readonly signal: AbortSignal;
  /** Whether to answer approval questions about the call with yes, without asking the person. */
  readonly yes: boolean;
  /** Told of what the tool logs and reports, and of where a question about the call waits. */
  readonly tell: (text: string) => void;
}

/** An event of a call's stream: the last has `result` or `error`. */
interface CallEvent {
  readonly result?: ToolResult;
  readonly trace?: CallTrace;
  readonly error?: { readonly code: string; readonly message: string };
  /** Set for a progress event: what the tool reports. */
  readonly message?: string;
  /** Set for a line that the tool logged. */
  readonly text?: string;
  /** The line says that the call waits for an answer. */
  readonly isWaiting?: boolean;
}

/** Calls a tool on the running server, which records it. Throws `CliError` when the server refuses the call. */
export async function callAt(
  server: ServerClient,
  name: string,
  { input, timeout, sessionID, signal, yes, tell }: CallThere,
): Promise<{ readonly result: ToolResult; readonly trace?: CallTrace }> {
  const callId = newCallId();
  const path = `/api/tools/${encodeURIComponent(name)}/calls`;
  const cancel = () => void server.ask(`/api/calls/${callId}`, "DELETE").catch(() => {});
  signal.addEventListener("abort", cancel, { once: true });
  try {
    const response = await server.open(path, { arguments: input, callId, timeout, sessionID });
    const { readSse } = await import("../chat/index.ts");
    for await (const data of readSse(response.body!)) {
      const event: CallEvent = JSON.parse(data);
      const { result, trace, error, isWaiting, message, text = message } = event;
      if (result !== undefined) return { result, ...(trace && { trace }) };
      if (error !== undefined) throw new CliError(error.message, error);
      if (yes && isWaiting === true) await agreeTo(server, callId);
      else if (text !== undefined) tell(text);
    }
    throw new CliError(`The server ended before it answered call ${callId}.`, { code: "server_gone" });
  } catch (thrown) {
    throw thrown instanceof CliError ? withExitCode(thrown) : thrown;
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

async function agreeTo(server: ServerClient, callId: string): Promise<void> {
  const { items } = await server.ask<Page<StoredApproval>>("/api/approvals?limit=500");
  for (const { id } of items.filter((asked) => asked.callId === callId))
    await server.ask(`/api/approvals/${id}`, "POST", { decision: "allow", reason: "--yes" });
}

/** A refusal of the server, with the exit code that the same refusal has in this process. */
function withExitCode({ message, code, details }: CliError): CliError {
  const [known] = Object.keys(toolErrorCodes).filter((one) => one === code) as ToolErrorCode[]; // The keys of `toolErrorCodes` are the codes.
  return new CliError(message, { code, details, ...(known && { exitCode: exitCodeOf(known) }) });
}
