import { type ToolContext, ToolDisabledError, ToolExecutionError, type ToolInfo } from "@toolrack/core";
import type { CompletionAnswer, PromptAnswer, ResourceAnswer } from "../../../calls/index.ts";
import { matchesPattern, type RackItem, upstreamOrigin } from "../../../config/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import type { ServerEntry, ToolChoices } from "../config/entry.ts";
import { commandFor, describeFailure, UpstreamError } from "../failures.ts";
import { type Listed, ownMember, type UpstreamTool, usableAnnotations } from "./catalogue.ts";
import type { RackNames } from "./names.ts";
import type { ToolPin } from "./pins.ts";
import { cleanText, usableSchema } from "./schema.ts";

/** What a tool of an upstream server needs of the server. */
interface ToolSource {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly upstream: {
    /** `ready`, `backoff` and so on, whenever it is asked for. */
    readonly state: string;
    call(tool: UpstreamTool, context: ToolContext): Promise<unknown>;
  };
  /** Takes note of what results link to. */
  readonly links: { note(block: Listed, giver: RackItem): void };
  readonly names: Pick<RackNames, "nameOf">;
}

/** Whether the entry lets the tool in at all. */
export function isOffered({ include, exclude = [] }: ToolChoices, name: string): boolean {
  return (include === undefined || isNamed(include, name)) && !isNamed(exclude, name);
}

function isNamed(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matchesPattern(pattern, name));
}

/**
 * The tool as the rack offers it. One in quarantine is shown as it was approved, and refuses by itself too: whatever
 * switches it on again, the definition that nobody agreed to is neither read by a model nor called. Throws for one that
 * nobody could call, and says why.
 */
export function toTool(source: ToolSource, given: UpstreamTool, pin: ToolPin): ToolInfo {
  const { key, entry, upstream, links, names } = source;
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
      return upstream.state;
    },
  });
  // A link is remembered longer than the server that it was read from.
  const giver = { name, metadata: { mcp: upstreamOrigin({ server: key, tool: tool.name }) } };
  const onLink = (block: Listed) => links.note(block, giver);
  const execute = (context: ToolContext) =>
    // One step for both outcomes: this is on the way of every call.
    upstream.call(tool, context).then(
      (answer) => {
        try {
          return toolAnswer(answer, onLink);
        } catch (thrown) {
          throw named(key, tool, thrown);
        }
      },
      (thrown: unknown) => {
        throw named(key, tool, thrown);
      },
    );
  const info: ToolInfo = {
    name,
    ...(described === undefined ? {} : { description: cleanText(described) }),
    ...(title === "" ? {} : { title }),
    displayName: `${key}/${cleanText(tool.name)}`,
    // A client that was shown the old name still reaches it.
    ...(name === own ? {} : { aliases: [own] }),
    parameters: usableSchema(tool.inputSchema).schema,
    ...(tool.outputSchema === undefined ? {} : { outputSchema: usableSchema(tool.outputSchema).schema }),
    execute,
    metadata: {
      category: "mcp",
      tags: ["mcp", key],
      outputCheck: "warn",
      ...(timeout === undefined ? {} : { timeout }),
      ...(limits.idle === undefined ? {} : { idleTimeout: limits.idle }),
      ...(isNamed(ask, tool.name) ? { dangerous: true } : {}),
      // Hints of the server about itself: shown to others, and believed here only of calls whose outcome nobody knows.
      ...(tool.annotations === undefined ? {} : { annotations: usableAnnotations(tool.annotations) }),
      ...(tool._meta === undefined ? {} : { _meta: tool._meta }),
      mcp,
    },
    createdAt: Date.now(),
    disabled: isNamed(disable, tool.name),
    origin: `mcp server ${key}`,
  };
  return isQuarantined ? refusing(info, quarantined(key, tool.name)) : info;
}

/** A tool of a server that is switched off. */
export function switchedOff(tool: ToolInfo, key: string): ToolInfo {
  const remedy = `Switch it on: ${commandFor("enable", key)}`;
  return refusing(tool, `The MCP server "${key}" is switched off, and its tools with it. ${remedy}`);
}

/** The tool switched off. It refuses by itself too, whatever switches it on again. */
function refusing(tool: ToolInfo, reason: string): ToolInfo {
  return {
    ...tool,
    execute: async () => {
      throw new ToolDisabledError(reason, { toolName: tool.name });
    },
    metadata: { ...tool.metadata, disabledReason: reason },
    disabled: true,
  };
}

export function quarantined(key: string, name: string): string {
  const remedy = `Look at the change and approve it: ${commandFor("approve", key, name)}`;
  return `The tool "${name}" of the MCP server "${key}" has changed its definition since it was approved, so it is switched off. ${remedy}`;
}

/** A schema that does not say of which type it is takes objects, as far as anybody can tell. */
function requireObjects({ type }: UpstreamTool["inputSchema"]): void {
  if (Array.isArray(type) ? type.includes("object") : type === undefined || type === "object") return;
  throw new Error(
    `Its inputSchema is of the type ${JSON.stringify(type)}, while arguments are always an object: nobody could call it.`,
  );
}

/** What the server did wrong, said with its name. */
function named(key: string, { annotations = {} }: UpstreamTool, thrown: unknown): unknown {
  if (!(thrown instanceof UpstreamError)) return thrown;
  const { kind, facts } = thrown;
  const { status = 0 } = facts;
  // Nobody knows if the tool has done its work. With 502 and 504, a gateway before the server got no answer of use.
  const mayStand =
    kind === "lost" ||
    kind === "broken" ||
    kind === "timeout" ||
    (kind === "refused" && (status === 502 || status === 504));
  const isRepeatable = annotations.readOnlyHint === true || annotations.idempotentHint === true;
  return new ToolExecutionError(describeFailure(key, "the call", thrown), {
    cause: thrown,
    recoverable: !mayStand || isRepeatable,
    data: { server: key, kind, ...facts },
  });
}

/** So much is shown of a text that stands where blocks should be: it may be all that the tool had to say. */
const LONGEST_TEXT = 300;

/**
 * The answer to `tools/call`, which is what was given wherever that has the form of one. A result without content but
 * with `structuredContent` is given the text that it should have had, and `isError` that is neither true nor false means
 * a failure unless it is empty. `onLink` is told of each block that links to a resource or holds one. Throws where it is
 * of another form: nobody could tell whether the call came to anything.
 */
function toolAnswer(given: unknown, onLink: (block: Listed) => void): unknown {
  if (!isRecord(given)) throw odd("is no object");
  const { content, isError } = given;
  if (!Array.isArray(content)) return withContent(given, onLink);
  for (let at = 0; at < content.length; at++) {
    const fault = faultOf(content[at], onLink);
    if (fault !== undefined) throw odd(`has in content[${at}] ${fault}`);
  }
  if (isError === undefined || typeof isError === "boolean") return given;
  return { ...given, isError: Boolean(isError) };
}

function withContent(given: Listed, onLink: (block: Listed) => void): unknown {
  const { content, structuredContent, isError } = given;
  if (typeof content === "string")
    throw odd(`has a text as content and not a list of blocks: ${shown(content)}`);
  if (content !== undefined && content !== null) throw odd("has a content that is no list of blocks");
  const isStructured = structuredContent !== undefined && structuredContent !== null;
  // That a tool failed can be understood without a word.
  if (!isStructured && !isError) throw odd("has neither content nor structuredContent");
  const text = isStructured ? [{ type: "text", text: JSON.stringify(structuredContent) }] : [];
  return toolAnswer({ ...given, content: text }, onLink);
}

/** What is wrong with a block. Types that are not known here are for whoever shows them. */
function faultOf(block: unknown, onLink: (block: Listed) => void): string | undefined {
  if (!isRecord(block)) return "something that is no block";
  switch (block.type) {
    case "text":
      return typeof block.text === "string" ? undefined : "a text block without text";
    case "image":
    case "audio":
      return typeof block.data === "string" ? undefined : `a block of type ${block.type} without data`;
    case "resource":
      if (!isRecord(block.resource)) return "a resource block without resource";
      onLink(block);
      return undefined;
    case "resource_link":
      if (typeof block.uri !== "string") return "a resource_link block without uri";
      onLink(block);
      return undefined;
    default:
      return typeof block.type === "string" ? undefined : "a block without a type";
  }
}

function shown(text: string): string {
  return JSON.stringify(text.length <= LONGEST_TEXT ? text : `${text.slice(0, LONGEST_TEXT)}…`);
}

function odd(fault: string): UpstreamError {
  return new UpstreamError(
    "broken",
    `Its result ${fault}. The tool may have done its work all the same: look before you call it again, and tell whoever runs the server.`,
  );
}

/** The answer to `prompts/get`. Throws where it is of another form, which nobody who asked could read. */
export function promptAnswer(given: unknown): PromptAnswer {
  const isGood =
    isRecord(given) &&
    Array.isArray(given.messages) &&
    given.messages.every(
      (message) =>
        isRecord(message) &&
        (message.role === "user" || message.role === "assistant") &&
        isRecord(message.content) &&
        typeof message.content.type === "string",
    );
  if (!isGood) throw oddAnswer("prompts/get", "messages with a role and a content");
  const { description, ...rest } = given;
  const told = typeof description === "string" ? { description } : {};
  // The form was looked at; what the content of a type has to hold is for whoever shows it.
  return { ...rest, ...told } as unknown as PromptAnswer;
}

/** The answer to `resources/read`. */
export function resourceAnswer(given: unknown): ResourceAnswer {
  const isGood =
    isRecord(given) &&
    Array.isArray(given.contents) &&
    given.contents.every(
      (content) =>
        isRecord(content) &&
        typeof content.uri === "string" &&
        (typeof content.text === "string" || typeof content.blob === "string"),
    );
  if (!isGood) throw oddAnswer("resources/read", "contents with a uri and a text or blob");
  // The form was looked at.
  return given as unknown as ResourceAnswer;
}

/** The answer to `completion/complete`; one that says nothing usable is no values. */
export function completionAnswer(given: unknown): CompletionAnswer {
  const completion = isRecord(given) && isRecord(given.completion) ? given.completion : {};
  const { values, total, hasMore } = completion;
  return {
    values: Array.isArray(values) ? values.filter((value) => typeof value === "string").slice(0, 100) : [],
    ...(typeof total === "number" && Number.isInteger(total) ? { total } : {}),
    ...(typeof hasMore === "boolean" ? { hasMore } : {}),
  };
}

function oddAnswer(method: string, wanted: string): UpstreamError {
  return new UpstreamError(
    "broken",
    `Its answer to ${method} cannot be used: it must have ${wanted}. Tell whoever runs the server.`,
  );
}
