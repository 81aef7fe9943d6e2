import {
  type CallOptions,
  type ToolContext,
  type ToolRegistry,
  type ToolResult,
  toMcpResult,
} from "@toolrack/core";
import { currentCall } from "../../host/current-call.ts";

/** The request of contract 2, as tools write it. */
export interface ToolboxRequest {
  readonly params: {
    readonly name: string;
    readonly arguments?: Record<string, unknown>;
    readonly tid?: string;
  };
  readonly tid?: string;
}

export type CallToolHandler = (
  request: ToolboxRequest,
  caller?: string,
) => Promise<ReturnType<typeof toMcpResult>>;

/**
 * The `callToolHandler` that tool files import. Inside a call it makes a child of that call; outside of one, such
 * as in a timer, a call of its own. It answers with an MCP result, and a failure is one with `isError`.
 */
export function makeCallToolHandler(registry: ToolRegistry): CallToolHandler {
  return async (request, caller) => {
    const { name, arguments: args, tid = request.tid } = request.params;
    const parent = currentCall.getStore();
    const options: CallOptions = {
      ...(caller === undefined ? {} : { caller }),
      ...(tid === undefined ? {} : { tid }),
    };
    return toMcpResult(await call(registry, parent, name, args, options));
  };
}

function call(
  registry: ToolRegistry,
  parent: ToolContext | undefined,
  name: string,
  args: unknown,
  options: CallOptions,
): Promise<ToolResult> {
  if (parent === undefined) return registry.execute(name, args, options);
  // A timer that was set inside a call still runs in its surroundings after the call has ended.
  const isUnderWay = registry.getState(parent.callId)?.status === "running";
  return isUnderWay
    ? registry.executeChild(parent, name, args, options)
    : registry.executeDetached(parent, name, args, options);
}
