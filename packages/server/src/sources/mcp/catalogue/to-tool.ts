import { type ToolContext, ToolDisabledError, ToolExecutionError, type ToolInfo } from "@toolrack/core";
import { matchesPattern } from "../../../auth/matches-pattern.ts";
import { upstreamOrigin } from "../../../auth/upstream-origin.ts";
import { commandFor } from "../command-for.ts";
import type { ServerEntry, ToolChoices } from "../config/server-entry.ts";
import { describeFailure } from "../named-failure.ts";
import type { Message } from "../protocol/json-rpc.ts";
import { UpstreamError } from "../protocol/upstream-error.ts";
import type { UpstreamTool } from "./catalogue.ts";
import { cleanText } from "./clean-text.ts";
import type { LinkedResources } from "./linked-resources.ts";
import { ownMember } from "./own-member.ts";
import type { RackNames } from "./rack-names.ts";
import { toolAnswer } from "./tool-answer.ts";
import type { ToolPin } from "./tool-pins.ts";
import { usableAnnotations } from "./usable-item.ts";
import { usableSchema } from "./usable-schema.ts";

/** What a tool of an upstream server needs of the server. */
export interface ToolSource {
  readonly key: string;
  readonly entry: ServerEntry;
  /** `ready`, `backoff` and so on, whenever it is asked for. */
  readonly state: string;
  /** What results link to. */
  readonly links: LinkedResources;
  call(tool: UpstreamTool, context: ToolContext): Promise<unknown>;
}

/** Whether the entry lets the tool in at all. */
export function isOffered({ include, exclude = [] }: ToolChoices, name: string): boolean {
  return (include === undefined || isNamed(include, name)) && !isNamed(exclude, name);
}

/**
 * The tool as it hangs on the rack. One in quarantine is shown as it was approved, and refuses by itself too: whatever
 * switches it on again, the definition that nobody agreed to is neither read by a model nor called. Throws for one that
 * nobody could call, and says why.
 */
export function toTool(
  source: ToolSource,
  given: UpstreamTool,
  pin: ToolPin,
  names: Pick<RackNames, "nameOf">,
): ToolInfo {
  const { key, entry } = source;
  const isQuarantined = pin.state === "quarantined";
  const tool: UpstreamTool = isQuarantined && pin.approved !== undefined ? pin.approved : given;
  requireObjects(tool.inputSchema);
  const { rename = {}, describe = {}, disable = [], ask = [] } = entry.toolrack?.tools ?? {};
  const { limits = {} } = entry.toolrack ?? {};
  const own = names.nameOf(key, tool.name);
  const renamed = pin.override.rename ?? ownMember(rename, tool.name);
  const name = renamed === undefined ? own : names.nameOf(key, renamed);
  const described = pin.override.describe ?? ownMember(describe, tool.name) ?? tool.description;
  const timeout = limits.call ?? entry.timeout;
  const title = tool.title === undefined ? "" : cleanText(tool.title);
  const mcp = upstreamOrigin({
    server: key,
    tool: tool.name,
    pin: pin.state,
    get state() {
      return source.state;
    },
  });
  // What it linked to is remembered longer than the server that it was read from.
  const giver = { name, metadata: { mcp: upstreamOrigin({ server: key, tool: tool.name }) } };
  const onLink = (block: Message) => source.links.note(block, giver);
  return {
    name,
    ...(described === undefined ? {} : { description: cleanText(described) }),
    ...(title === "" ? {} : { title }),
    displayName: `${key}/${cleanText(tool.name)}`,
    // A client that was shown the old name still reaches it.
    ...(name === own ? {} : { aliases: [own] }),
    parameters: usableSchema(tool.inputSchema).schema,
    ...(tool.outputSchema === undefined ? {} : { outputSchema: usableSchema(tool.outputSchema).schema }),
    execute: isQuarantined
      ? async () => {
          throw new ToolDisabledError(quarantined(key, tool.name), { toolName: name });
        }
      : (context: ToolContext) => callUpstream(source, tool, context, onLink),
    metadata: {
      category: "mcp",
      tags: ["mcp", key],
      outputCheck: "warn",
      ...(timeout === undefined ? {} : { timeout }),
      ...(limits.idle === undefined ? {} : { idleTimeout: limits.idle }),
      ...(isNamed(ask, tool.name) ? { dangerous: true } : {}),
      ...(isQuarantined ? { disabledReason: quarantined(key, tool.name) } : {}),
      // Hints of the server about itself: shown to others, and believed here only of calls whose outcome nobody knows.
      ...(tool.annotations === undefined ? {} : { annotations: usableAnnotations(tool.annotations) }),
      ...(tool._meta === undefined ? {} : { _meta: tool._meta }),
      mcp,
    },
    createdAt: Date.now(),
    disabled: isQuarantined || isNamed(disable, tool.name),
    origin: `mcp server ${key}`,
  };
}

export function quarantined(key: string, name: string): string {
  return (
    `The tool "${name}" of the MCP server "${key}" has changed its definition since it was approved, so it is switched off. ` +
    `Look at the change and approve it: ${commandFor("approve", key, name)}`
  );
}

/** A schema that does not say of which type it is takes objects, as far as anybody can tell. */
function requireObjects({ type }: UpstreamTool["inputSchema"]): void {
  if (Array.isArray(type) ? type.includes("object") : type === undefined || type === "object") return;
  throw new Error(
    `Its inputSchema is of the type ${JSON.stringify(type)}, while arguments are always an object: nobody could call it.`,
  );
}

function callUpstream(
  source: ToolSource,
  tool: UpstreamTool,
  context: ToolContext,
  onLink: (block: Message) => void,
): Promise<unknown> {
  // One step for both outcomes: this is on the way of every call.
  return source.call(tool, context).then(
    (given) => {
      try {
        return toolAnswer(given, onLink);
      } catch (thrown) {
        throw named(source.key, tool, thrown);
      }
    },
    (thrown: unknown) => {
      throw named(source.key, tool, thrown);
    },
  );
}

/** What the server did wrong, said with its name. */
function named(key: string, tool: UpstreamTool, thrown: unknown): unknown {
  return thrown instanceof UpstreamError ? failureOf(key, tool, thrown) : thrown;
}

function failureOf(key: string, tool: UpstreamTool, error: UpstreamError): ToolExecutionError {
  const { kind, facts } = error;
  return new ToolExecutionError(describeFailure(key, "the call", error), {
    cause: error,
    recoverable: !mayStand(error) || isRepeatable(tool),
    data: {
      server: key,
      kind,
      ...facts,
    },
  });
}

/** Whether nobody knows if the tool has done its work. */
function mayStand({ kind, facts: { status = 0 } }: UpstreamError): boolean {
  return unanswered.has(kind) || (kind === "refused" && ofGateways.has(status));
}

const unanswered: ReadonlySet<UpstreamError["kind"]> = new Set(["lost", "broken", "timeout"]);
/** With these, it is not the server that says no: whoever stands before it got no answer, or none of use. */
const ofGateways: ReadonlySet<number> = new Set([502, 504]);

/** Whether a second call does no harm, whatever the first one did. */
function isRepeatable({ annotations = {} }: UpstreamTool): boolean {
  return annotations.readOnlyHint === true || annotations.idempotentHint === true;
}

function isNamed(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matchesPattern(pattern, name));
}
