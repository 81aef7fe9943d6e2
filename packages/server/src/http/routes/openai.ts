import { setImmediate as nextTurn } from "node:timers/promises";
import type { ToolInfo, ToolResult } from "@toolrack/core";
import {
  parseOpenAIToolCalls,
  type ToolCallRequest,
  toOpenAIToolMessage,
  toOpenAITools,
} from "@toolrack/core/format";
import { isMetaTool, metaToolSettings, searchToolName, shownTools } from "../../calls/index.ts";
import { pathCall, withCatalogue } from "../../code/index.ts";
import { skillToolInfo } from "../../skills/index.ts";
import { viaOf } from "../call-answers.ts";
import type { HttpServices } from "../services.ts";
import { isWithin, withMetaTools } from "../tool-lists.ts";
import {
  callerGone,
  expertQuery,
  HttpError,
  Reply,
  type Route,
  reachOf,
  routesFor,
  s,
} from "../wire/index.ts";

const MOST_CALLS = 128;
/** No model provider accepts more tools in one request. */
const MOST_TOOLS = 1_000;
const leftOutHeader = "Toolrack-Tools-Left-Out";

const strict = s.boolean(
  "Strict mode. Say the same in both requests: it changes how arguments that are left out are written.",
  { default: false },
);

/** Two routes through which any agent loop, in any language, can use the rack. */
export function openaiRoutes(services: HttpServices): Route[] {
  const { registry, config, guard, service } = services;
  const { experts } = services.skills;
  const meta = metaToolSettings(config.mcp);
  const plain = formatEach(false);
  const strictly = formatEach(true);
  const route = routesFor("openai", "token");
  return [
    route("GET /openai/tools", "openaiTools", "The `tools` of a Chat Completions request", {
      description: `Like the lists of MCP clients, it has \`toolrack_search\`, \`toolrack_describe\` and \`toolrack_call\` in place of most tools when the token may use more than \`mcp.threshold\` of them (100 unless the config says otherwise), and never more than ${MOST_TOOLS} tools. The header \`${leftOutHeader}\` says how many tools are left out. They can be called all the same.`,
      query: { strict, expert: expertQuery },
      answer: ["Sorted by name, so that prompt caches hold.", s.list(s.ref("OpenAITool"))],
      errors: ["expert_not_found"],
      async handle({ query, grant }) {
        const reach = reachOf(grant, experts, query.expert);
        const { seen, shown } = shownTools(
          registry.list(),
          (tool) => isWithin(tool, reach),
          // Without the meta-tools on the rack, nothing could stand for the others.
          registry.get(searchToolName) === undefined ? { ...meta, mode: "off" } : meta,
        );
        // After a change of a rack with 50,000 tools, looking at all of them takes 20 ms, and the catalogue 30 ms.
        await nextTurn();
        const tools = withCatalogue(shown.sort(byName).slice(0, MOST_TOOLS), seen, registry);
        const leftOut = seen.length - tools.filter(({ name }) => !isMetaTool(name)).length;
        const format = query.strict === true ? strictly : plain;
        const body = tools.flatMap((info) => format(info).tools);
        return leftOut === 0 ? body : new Reply(body, { headers: { [leftOutHeader]: String(leftOut) } });
      },
    }),
    route("POST /openai/tool-calls", "openaiToolCalls", "Runs the calls of an assistant message", {
      description:
        "The body is the message, or its `tool_calls`. The calls run side by side; the answer holds one message for each, in their order. A call that fails or is refused says so in its own message. Closing the connection cancels them.",
      query: {
        strict,
        expert: expertQuery,
        sessionID: s.text("Calls of one session share loop detection.", { maxLength: 200 }),
        messageID: s.text("The model turn that makes the calls.", { maxLength: 200 }),
        envelope: s.boolean(
          'Whether the contents are `{"success": true, "data": …}` or `{"success": false, "error": …}`. Default: for tools of skills.',
        ),
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
        const reach = withMetaTools(reachOf(ownGrant, experts, expert));
        const { grant, allow } = reach;
        const named = reach.expert?.name;
        const format = isStrict ? strictly : plain;
        const requests = parseOpenAIToolCalls(body);
        guard.limitRate(grant, requests.length - 1);
        const gone = callerGone(incoming, outgoing);
        const answer = async (given: ToolCallRequest) => {
          const byPath = pathCall(registry, given.name);
          const request = byPath === undefined ? given : { ...given, name: byPath.toolName };
          const info = registry.get(request.name);
          const isSeen = info !== undefined && isWithin(info, reach);
          const isKnown = isSeen && info.name === request.name;
          const envelope = isWrapped ?? (isSeen && skillToolInfo(info) !== undefined);
          const { name, arguments: input } = isKnown ? format(info).restore(request) : request;
          const { signal } = gone;
          const { headers } = incoming;
          const by = { via: viaOf(headers), expert: named };
          const call = { name, input, grant, allow, signal, headers, byModel: true, ...by, ...options };
          const { role, tool_call_id, content } = toOpenAIToolMessage(
            request.id,
            await resultOf(() => service.run(call)),
            { envelope },
          );
          // Returns the name as the model wrote it, even if the rack uses another.
          const told = byPath === undefined ? "" : `\n\n${byPath.note}`;
          return { role, tool_call_id, name: given.name, content: content + told };
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
