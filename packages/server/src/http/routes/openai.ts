import {
  parseOpenAIToolCalls,
  type ToolCallRequest,
  type ToolInfo,
  type ToolResult,
  toOpenAIToolMessage,
  toOpenAITools,
} from "@toolrack/core";
import type { HttpParts } from "../app.ts";
import { charge } from "../request-guard.ts";
import { ref } from "../schemas/common.ts";
import {
  callerGone,
  defineRoute,
  expertQuery,
  HttpError,
  type Reach,
  type Route,
  reachOf,
} from "../wire/index.ts";

type Formatted = Pick<ReturnType<typeof toOpenAITools>, "tools" | "restore">;

interface ToolCallsQuery {
  readonly strict?: boolean;
  readonly expert?: string;
  readonly sessionID?: string;
  readonly messageID?: string;
}

const MOST_CALLS = 128;
const MOST_REMEMBERED = 16;

const strict = {
  type: "boolean",
  default: false,
  description:
    "Strict mode. Say the same in both requests: it changes how arguments that are left out are written.",
};

/** Two requests that let any agent loop, in any language, use the rack. */
export function openaiRoutes(parts: HttpParts): Route[] {
  const format = formatter(parts);
  const { experts } = parts.skills;
  return [
    defineRoute<object, { strict?: boolean; expert?: string }>({
      method: "GET",
      path: "/openai/tools",
      id: "openaiTools",
      tag: "openai",
      summary: "The `tools` of a Chat Completions request",
      access: "token",
      query: { strict, expert: expertQuery },
      responses: {
        200: {
          description: "Sorted by name, so that prompt caches hold.",
          schema: { type: "array", items: ref("OpenAITool") },
        },
      },
      errors: ["expert_not_found"],
      handle: ({ query, grant }) => ({
        body: format(reachOf(grant, experts, query.expert), query.strict === true).tools,
      }),
    }),
    defineRoute<object, ToolCallsQuery>({
      method: "POST",
      path: "/openai/tool-calls",
      id: "openaiToolCalls",
      tag: "openai",
      summary: "Runs the calls of an assistant message",
      description:
        "The body is the message, or its `tool_calls`. The calls run side by side; the answer holds one message for each, in their order. A call that fails or is refused says so in its own message. Closing the connection cancels them.",
      access: "token",
      query: {
        strict,
        expert: expertQuery,
        sessionID: {
          type: "string",
          maxLength: 200,
          description: "Calls of one session share loop detection.",
        },
        messageID: { type: "string", maxLength: 200, description: "The model turn that makes the calls." },
      },
      body: {
        required: true,
        schema: {
          anyOf: [
            { type: "array", maxItems: MOST_CALLS, items: { type: "object" } },
            {
              type: "object",
              properties: { tool_calls: { type: "array", maxItems: MOST_CALLS, items: { type: "object" } } },
              required: ["tool_calls"],
              additionalProperties: true,
            },
            {
              type: "object",
              properties: { function_call: { type: "object" } },
              required: ["function_call"],
              additionalProperties: true,
            },
          ],
        },
      },
      responses: {
        200: {
          description: "Append them to the messages of the conversation.",
          schema: { type: "array", items: ref("OpenAIToolMessage") },
        },
      },
      errors: ["stopping", "expert_not_found"],
      async handle({ query, body, grant: bearer, incoming, outgoing }) {
        const reach = reachOf(bearer, experts, query.expert);
        const { grant, allow } = reach;
        const formatted = format(reach, query.strict === true);
        const requests = parseOpenAIToolCalls(body);
        charge(parts.limiter, grant, requests.length - 1);
        const gone = callerGone(incoming, outgoing);
        const { strict: _strict, expert: _expert, ...rest } = query;
        const options = { ...rest, ...(allow === undefined ? {} : { allow }) };
        const answer = async (request: ToolCallRequest) => {
          const { name, arguments: input } = formatted.restore(request);
          const call = { name, input, grant, signal: gone.signal, headers: incoming.headers, ...options };
          const message = toOpenAIToolMessage(request.id, await resultOf(() => parts.desk.run(call)));
          // Exactly as the model wrote it, whatever the tool is called on the rack.
          return {
            role: message.role,
            tool_call_id: message.tool_call_id,
            name: request.name,
            content: message.content,
          };
        };
        try {
          return { body: await Promise.all(requests.map(answer)) };
        } finally {
          gone.release();
        }
      },
    }),
  ];
}

/** One call that is refused must not spoil the others: the model reads why in the place of its result. */
async function resultOf(run: () => Promise<{ readonly result: ToolResult }>): Promise<ToolResult> {
  try {
    return (await run()).result;
  } catch (thrown) {
    const refusal = HttpError.from(thrown);
    if (refusal === undefined) throw thrown;
    return { type: "error", content: refusal.message };
  }
}

/** Put together once for each state of the rack and each token. */
function formatter({ registry }: HttpParts): (reach: Reach, strict: boolean) => Formatted {
  const remembered = new Map<string, Formatted>();
  const formats = { plain: formatEach(false), strict: formatEach(true) };
  let version = -1;
  return ({ grant, allow, expert }, strict) => {
    const snapshot = registry.snapshot();
    if (snapshot.version !== version || remembered.size >= MOST_REMEMBERED) remembered.clear();
    version = snapshot.version;
    const key = `${strict} ${grant.admin ? "" : grant.id} ${expert?.version ?? ""}`;
    let formatted = remembered.get(key);
    if (formatted === undefined) {
      const visible = snapshot.list().filter((info) => grant.mayUse(info) && allow?.(info) !== false);
      formatted = formats[strict ? "strict" : "plain"](visible);
      remembered.set(key, formatted);
    }
    return formatted;
  };
}

/**
 * Formatting thousands of schemas takes a while, so each tool is formatted once, as long as it is the same. On its own
 * it comes out as it would among the others: names on the rack are all such that they are sent as they are.
 */
function formatEach(strict: boolean): (tools: readonly ToolInfo[]) => Formatted {
  const known = new WeakMap<ToolInfo, Formatted>();
  return (tools) => {
    const formatted = new Map<string, Formatted>();
    for (const info of tools.toSorted(byName)) {
      let own = known.get(info);
      if (own === undefined) {
        own = toOpenAITools([info], { strict });
        known.set(info, own);
      }
      formatted.set(info.name, own);
    }
    return {
      tools: [...formatted.values()].flatMap((own) => own.tools),
      restore: (call) => formatted.get(call.name)?.restore(call) ?? call,
    };
  };
}

function byName(one: ToolInfo, other: ToolInfo): number {
  return one.name < other.name ? -1 : 1;
}
