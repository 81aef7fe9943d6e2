import {
  parseOpenAIToolCalls,
  type ToolCallRequest,
  type ToolInfo,
  type ToolResult,
  toOpenAIToolMessage,
  toOpenAITools,
} from "@toolrack/core";
import { skillToolInfo } from "../../skills/index.ts";
import { viaOf } from "../call-answers.ts";
import type { HttpServices } from "../services.ts";
import {
  callerGone,
  expertQuery,
  HttpError,
  type Reach,
  type Route,
  reachOf,
  routesFor,
  s,
} from "../wire/index.ts";

const MOST_CALLS = 128;

const strict = s.boolean({
  default: false,
  description:
    "Strict mode. Say the same in both requests: it changes how arguments that are left out are written.",
});

/** Two routes through which any agent loop, in any language, can use the rack. */
export function openaiRoutes({ registry, skills: { experts }, guard, service }: HttpServices): Route[] {
  const plain = formatEach(false);
  const strictly = formatEach(true);
  const route = routesFor("openai", "token");
  return [
    route("GET /openai/tools", "openaiTools", "The `tools` of a Chat Completions request", {
      query: { strict, expert: expertQuery },
      answer: ["Sorted by name, so that prompt caches hold.", s.list(s.ref("OpenAITool"))],
      errors: ["expert_not_found"],
      handle({ query, grant }) {
        const reach = reachOf(grant, experts, query.expert);
        const tools = registry.list().filter((info) => isVisible(info, reach));
        const format = query.strict === true ? strictly : plain;
        return tools.sort(byName).flatMap((info) => format(info).tools);
      },
    }),
    route("POST /openai/tool-calls", "openaiToolCalls", "Runs the calls of an assistant message", {
      description:
        "The body is the message, or its `tool_calls`. The calls run side by side; the answer holds one message for each, in their order. A call that fails or is refused says so in its own message. Closing the connection cancels them.",
      query: {
        strict,
        expert: expertQuery,
        sessionID: s.text({ maxLength: 200, description: "Calls of one session share loop detection." }),
        messageID: s.text({ maxLength: 200, description: "The model turn that makes the calls." }),
        envelope: s.boolean({
          description:
            'Whether the contents are `{"success": true, "data": …}` or `{"success": false, "error": …}`. Default: for tools of skills.',
        }),
      },
      body: {
        anyOf: [
          s.list(s.anyObject(), { maxItems: MOST_CALLS }),
          s.object(
            { tool_calls: s.list(s.anyObject(), { maxItems: MOST_CALLS }) },
            { additionalProperties: true },
          ),
          s.object({ function_call: s.anyObject() }, { additionalProperties: true }),
        ],
      },
      answer: ["Append them to the messages of the conversation.", s.list(s.ref("OpenAIToolMessage"))],
      errors: ["stopping", "expert_not_found"],
      async handle({ query, body, grant: ownGrant, incoming, outgoing }) {
        const { strict: isStrict = false, expert, envelope: isWrapped, ...options } = query;
        const reach = reachOf(ownGrant, experts, expert);
        const { grant, allow } = reach;
        const format = isStrict ? strictly : plain;
        const requests = parseOpenAIToolCalls(body);
        guard.limitRate(grant, requests.length - 1);
        const gone = callerGone(incoming, outgoing);
        const answer = async (request: ToolCallRequest) => {
          const info = registry.get(request.name);
          const isSeen = info !== undefined && isVisible(info, reach);
          const isKnown = isSeen && info.name === request.name;
          const envelope = isWrapped ?? (isSeen && skillToolInfo(info) !== undefined);
          const { name, arguments: input } = isKnown ? format(info).restore(request) : request;
          const { signal } = gone;
          const { headers } = incoming;
          const call = { name, input, grant, allow, signal, headers, via: viaOf(headers), ...options };
          const { role, tool_call_id, content } = toOpenAIToolMessage(
            request.id,
            await resultOf(() => service.run(call)),
            { envelope },
          );
          // Returns the name as the model wrote it, even if the rack uses another.
          return { role, tool_call_id, name: request.name, content };
        };
        try {
          return await Promise.all(requests.map(answer));
        } finally {
          gone.release();
        }
      },
    }),
  ];
}

/** A refused call must not fail the others: the model gets the reason as its result. */
async function resultOf(run: () => Promise<{ readonly result: ToolResult }>): Promise<ToolResult> {
  try {
    return (await run()).result;
  } catch (thrown) {
    const refusal = HttpError.from(thrown);
    if (refusal === undefined) throw thrown;
    return { type: "error", content: refusal.message };
  }
}

function isVisible(info: ToolInfo, { grant, allow }: Reach): boolean {
  return grant.mayUse(info) && allow?.(info) !== false;
}

/**
 * Returns a function that formats a tool, and keeps the result per tool, because formatting thousands of
 * schemas is slow. Tools can be formatted alone, because names on the rack need no translation.
 */
function formatEach(strict: boolean): (info: ToolInfo) => ReturnType<typeof toOpenAITools> {
  const known = new WeakMap<ToolInfo, ReturnType<typeof toOpenAITools>>();
  return (info) => {
    const formatted = known.get(info) ?? toOpenAITools([info], { strict });
    known.set(info, formatted);
    return formatted;
  };
}

function byName(one: ToolInfo, other: ToolInfo): number {
  return one.name < other.name ? -1 : 1;
}
