import {
  type InputRequiredResult,
  MissingRequiredClientCapabilityError,
  ProtocolError,
} from "@modelcontextprotocol/server";
import type { EndedCall } from "../../calls/call-desk.ts";
import { meantTool } from "../../meta-tools/meta-tools.ts";
import { bindingOf } from "./binding-of.ts";
import { abilitiesOf, carry, clientNameOf, comeBack, type Leg, sendBack, wantsOf } from "./carry.ts";
import type { Exchange } from "./exchange.ts";
import type { McpParts } from "./mcp-parts.ts";
import { pageOf } from "./page-of.ts";
import type { RackServer } from "./rack-server.ts";
import type { ServerPlace } from "./server-place.ts";
import { startToolCall, type ToolCallParams } from "./start-tool-call.ts";
import { asksAtFirst } from "./tasks/asks-at-first.ts";
import { newTaskId, type TaskView } from "./tasks/task-desk.ts";
import { knowsTasks, missingTasks, type TaskSupport, taskSupportOf } from "./tasks/task-support.ts";
import { requireVisible, toolAnswer, toProtocolError } from "./tool-answer.ts";
import type { Viewer } from "./viewer.ts";

/** The list of tools, and calls of them. */
export function serveTools(server: RackServer, parts: McpParts, viewer: Viewer, place: ServerPlace): void {
  server.setRequestHandler("tools/list", ({ params }) => {
    const { tools } = parts.lists.of(viewer);
    const { items, nextCursor } = pageOf("tools", tools, ({ name }) => name, params?.cursor);
    // The same shape; only that of the SDK is written with mutable members.
    return { tools: items, ...(nextCursor === undefined ? {} : { nextCursor }) } as never;
  });
  server.setRequestHandler("tools/call", async ({ params }, context) => {
    const leg: Leg = { server, context, ...place };
    const { name } = params;
    const running = runningOf(leg);
    const waiting = comeBack<EndedCall>(name, params.arguments, leg);
    if (waiting === undefined && running === undefined) requireVisible(parts, viewer, name);
    const support = running === undefined ? supportFor(parts, viewer, leg, params) : undefined;
    const exchange =
      running ??
      waiting ??
      startToolCall(parts, viewer, params, {
        subject: name,
        abilities: abilitiesOf(leg),
        clientName: clientNameOf(leg),
        answers: context.mcpReq.inputResponses ?? {},
        wants: wantsOf(leg),
        ...(support === undefined ? {} : { callId: newTaskId() }),
      });
    try {
      const { callId } = exchange;
      if (support !== undefined && callId !== undefined) {
        // Not a result of a tool, for which the server makes an exception.
        return (await toTask(callId, exchange, support, waiting !== undefined, leg, parts, viewer)) as never;
      }
      const ended = await carry(exchange, leg, parts.held, bindingOf(viewer, context));
      if (!isEnded(ended)) return ended;
      const refusal = undeclared(exchange, ended, leg);
      if (refusal !== undefined) throw refusal;
      const outputSchema = parts.lists.of(viewer).byName.get(name)?.outputSchema;
      const given = { canLink: canLink(leg), isPromised: outputSchema !== undefined };
      // The same shapes; only those of the SDK are written with mutable members.
      return server.projectCallToolResult(toolAnswer(ended, given) as never, outputSchema as never);
    } catch (thrown) {
      throw toProtocolError(thrown);
    }
  });
}

/** The call behind this request, when it was begun before the SDK was given the request. */
function runningOf({ context, running }: Leg): Exchange<EndedCall> | undefined {
  const handedOn = context.http?.authInfo?.extra?.running;
  return handedOn === undefined ? running?.(context.mcpReq.id) : (handedOn as Exchange<EndedCall>); // Put there by us.
}

/** How the call becomes a task, when it does. Throws when it would have to, for a client that knows no tasks. */
function supportFor(
  parts: McpParts,
  viewer: Viewer,
  leg: Leg,
  params: ToolCallParams,
): TaskSupport | undefined {
  const support = taskSupportOf(parts, viewer, params);
  if (support === undefined) return undefined;
  if (leg.era === "modern" && knowsTasks(abilitiesOf(leg))) return support;
  if (support.support === "required") throw missingTasks(meantTool(parts.registry, params)?.name);
  return undefined;
}

async function toTask(
  callId: string,
  exchange: Exchange<EndedCall>,
  { asksFirst }: TaskSupport,
  isAnswered: boolean,
  leg: Leg,
  { held, tasks }: McpParts,
  viewer: Viewer,
): Promise<TaskView | InputRequiredResult> {
  const mustAnswer = isAnswered
    ? exchange.open.length > 0
    : asksFirst && (await asksAtFirst(exchange, leg.context.mcpReq.signal));
  if (mustAnswer) return sendBack(exchange, leg, held, bindingOf(viewer, leg.context));
  held.forget(exchange);
  return tasks.adopt(callId, exchange, viewer, ({ ended, reason }) => {
    const error = ended === undefined ? toProtocolError(reason) : undeclared(exchange, ended, leg);
    if (error === undefined) return undefined;
    if (!(error instanceof ProtocolError))
      return { code: -32603, message: "The server failed. Its log says why." };
    return {
      code: error.code,
      message: error.message,
      ...(error.data === undefined ? {} : { data: error.data }),
    };
  });
}

function isEnded(value: EndedCall | InputRequiredResult): value is EndedCall {
  return "callId" in value;
}

/** A call that failed because its client lacks something: the protocol has an error of its own for it. */
function undeclared(
  { missed }: Exchange<EndedCall>,
  { result }: EndedCall,
  { era }: Leg,
): ProtocolError | undefined {
  if (missed === undefined || result.type !== "error" || era === "legacy") return undefined;
  return new MissingRequiredClientCapabilityError({ requiredCapabilities: missed }, result.content);
}

/** Links came with 2025-06-18. */
function canLink({ server, era }: Leg): boolean {
  return era === "modern" || (server.getNegotiatedProtocolVersion() ?? "") >= "2025-06-18";
}
