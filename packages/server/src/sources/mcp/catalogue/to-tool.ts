import { type ToolContext, ToolDisabledError, ToolExecutionError, type ToolInfo } from "@toolrack/core";
import { matchesPattern } from "../../../auth/matches-pattern.ts";
import type { ServerEntry, ToolChoices } from "../config/server-entry.ts";
import { UpstreamError } from "../protocol/upstream-error.ts";
import type { UpstreamTool } from "./catalogue.ts";
import { cleanSchema, cleanText } from "./clean-text.ts";
import { ownMember } from "./own-member.ts";
import { toolAnswer } from "./tool-answer.ts";
import { rackNameOf } from "./tool-names.ts";
import type { ToolPin } from "./tool-pins.ts";
import { usableAnnotations } from "./usable-item.ts";

/** What a tool of an upstream server needs of the server. */
export interface ToolSource {
  readonly key: string;
  readonly entry: ServerEntry;
  /** `ready`, `backoff` and so on, whenever it is asked for. */
  readonly state: string;
  call(tool: UpstreamTool, context: ToolContext): Promise<unknown>;
}

/** Whether the entry lets the tool in at all. */
export function isOffered({ include, exclude = [] }: ToolChoices, name: string): boolean {
  return (include === undefined || isNamed(include, name)) && !isNamed(exclude, name);
}

/**
 * The tool as it hangs on the rack. One in quarantine is shown as it was approved, and refuses by itself too: whatever
 * switches it on again, the definition that nobody agreed to is neither read by a model nor called.
 */
export function toTool(
  source: ToolSource,
  given: UpstreamTool,
  pin: ToolPin,
  keys: Iterable<string>,
): ToolInfo {
  const { key, entry } = source;
  const isQuarantined = pin.state === "quarantined";
  const tool: UpstreamTool = isQuarantined && pin.approved !== undefined ? pin.approved : given;
  const { rename = {}, describe = {}, disable = [], ask = [] } = entry.toolrack?.tools ?? {};
  const { limits = {} } = entry.toolrack ?? {};
  const others = [...keys];
  const own = rackNameOf(key, tool.name, others);
  const renamed = pin.override.rename ?? ownMember(rename, tool.name);
  const name = renamed === undefined ? own : rackNameOf(key, renamed, others);
  const described = pin.override.describe ?? ownMember(describe, tool.name) ?? tool.description;
  const timeout = limits.call ?? entry.timeout;
  const title = tool.title === undefined ? "" : cleanText(tool.title);
  return {
    name,
    ...(described === undefined ? {} : { description: cleanText(described) }),
    ...(title === "" ? {} : { title }),
    displayName: `${key}/${cleanText(tool.name)}`,
    // A client that was shown the old name still reaches it.
    ...(name === own ? {} : { aliases: [own] }),
    parameters: cleanSchema(tool.inputSchema) as object,
    ...(tool.outputSchema === undefined ? {} : { outputSchema: cleanSchema(tool.outputSchema) as object }),
    execute: isQuarantined
      ? async () => {
          throw new ToolDisabledError(quarantined(key, tool.name), { toolName: name });
        }
      : (context: ToolContext) => callUpstream(source, tool, context),
    metadata: {
      category: "mcp",
      tags: ["mcp", key],
      outputCheck: "warn",
      ...(timeout === undefined ? {} : { timeout }),
      ...(limits.idle === undefined ? {} : { idleTimeout: limits.idle }),
      ...(isNamed(ask, tool.name) ? { dangerous: true } : {}),
      ...(isQuarantined ? { disabledReason: quarantined(key, tool.name) } : {}),
      // Hints of the server about itself: shown to others, believed by nobody here.
      ...(tool.annotations === undefined ? {} : { annotations: usableAnnotations(tool.annotations) }),
      ...(tool._meta === undefined ? {} : { _meta: tool._meta }),
      mcp: {
        server: key,
        tool: tool.name,
        pin: pin.state,
        get state() {
          return source.state;
        },
      },
    },
    createdAt: Date.now(),
    disabled: isQuarantined || isNamed(disable, tool.name),
    origin: `mcp server ${key}`,
  };
}

export function quarantined(key: string, name: string): string {
  return (
    `The tool "${name}" of the MCP server "${key}" has changed its definition since it was approved, so it is switched off. ` +
    `Look at the change and approve it: toolrack mcp-servers approve ${key} ${name}`
  );
}

function callUpstream(source: ToolSource, tool: UpstreamTool, context: ToolContext): Promise<unknown> {
  // One step for both outcomes: this is on the way of every call.
  return source.call(tool, context).then(
    (given) => {
      try {
        return toolAnswer(given);
      } catch (thrown) {
        throw named(source.key, thrown);
      }
    },
    (thrown: unknown) => {
      throw named(source.key, thrown);
    },
  );
}

/** What the server did wrong, said with its name. */
function named(key: string, thrown: unknown): unknown {
  return thrown instanceof UpstreamError ? failureOf(key, thrown) : thrown;
}

function failureOf(key: string, error: UpstreamError): ToolExecutionError {
  const { kind, facts } = error;
  return new ToolExecutionError(messageFor(key, error), {
    cause: error,
    data: {
      server: key,
      kind,
      ...facts,
    },
  });
}

function messageFor(key: string, { kind, message, code }: UpstreamError): string {
  if (kind === "broken") return `The MCP server "${key}" gave no usable answer: ${message}`;
  if (kind !== "refused") return message;
  return `The MCP server "${key}" refused the call: ${message}${code === undefined ? "" : ` (code ${code})`}`;
}

function isNamed(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matchesPattern(pattern, name));
}
