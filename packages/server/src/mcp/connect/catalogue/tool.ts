import { type ToolContext, ToolDisabledError, ToolExecutionError, type ToolInfo } from "@toolrack/core";
import { firstSentence } from "@toolrack/core/internal";
import { matchesPattern, type RackItem, upstreamOrigin } from "../../../config/index.ts";
import { asRecord, defined, isRecord } from "../../../helpers/index.ts";
import { isLocal, type ServerEntry, type ToolChoices } from "../config/entry.ts";
import { commandFor, describeFailure, type Named, nameOf, UpstreamError } from "../failures.ts";
import { headerProblem, type Message } from "../protocol/messages.ts";
import { ownMember, type ServerInstructions, type UpstreamTool, usableAnnotations } from "./catalogue.ts";
import type { RackNames } from "./rack-names.ts";
import type { ToolPin } from "./tool-approvals.ts";
import { cleanText, usableSchema } from "./usable-schema.ts";

/** What a tool needs of its server. */
interface ToolSource {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly upstream: {
    /** The current state, such as `ready` or `backoff`. */
    readonly state: string;
    call(tool: UpstreamTool, context: ToolContext): Promise<unknown>;
  };
  /** Remembers the resources that results link to. */
  readonly links: { note(block: Message, source: RackItem): void };
  readonly names: Pick<RackNames, "nameOf">;
  /** What the server is for. */
  readonly about: ServerInstructions | undefined;
}

/** How many characters a tool keeps of what its server is for. */
const LONGEST_ABOUT = 120;

/** Whether the entry allows the tool at all. */
export function isOffered({ include, exclude = [] }: ToolChoices, name: string): boolean {
  return (include === undefined || isNamed(include, name)) && !isNamed(exclude, name);
}

function isNamed(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matchesPattern(pattern, name));
}

/**
 * The tool as the rack offers it. A quarantined tool is shown with its approved definition and refuses every call, even
 * when something enables it again: no model reads or calls a definition that nobody approved. Throws, with the reason,
 * for a tool that nobody could call.
 */
export function toTool(source: ToolSource, given: UpstreamTool, pin: ToolPin): ToolInfo {
  const { key, entry, upstream, links, names, about } = source;
  const isQuarantined = pin.state === "quarantined";
  const hints = hintsFor(entry, given.name);
  const tool = withHints(isQuarantined && pin.approved !== undefined ? pin.approved : given, hints);
  requireObjects(tool.inputSchema);
  const problem = isLocal(entry) ? undefined : headerProblem(tool.inputSchema);
  if (problem !== undefined) throw new Error(problem);
  const { rename = {}, describe = {}, disable = [], ask = [] } = entry.toolrack?.tools ?? {};
  const { limits = {} } = entry.toolrack ?? {};
  const own = names.nameOf(key, tool.name);
  const renamed = pin.override.rename ?? ownMember(rename, tool.name);
  const name = renamed === undefined ? own : names.nameOf(key, renamed);
  const described = pin.override.describe ?? ownMember(describe, tool.name) ?? tool.description;
  const title = tool.title === undefined ? "" : cleanText(tool.title);
  const mcp = upstreamOrigin({
    server: key,
    tool: tool.name,
    pin: pin.state,
    ...defined({ about: about && { ...about, text: firstSentence(about.text, LONGEST_ABOUT) } }),
    get state() {
      return upstream.state;
    },
  });
  // A separate object, because links are kept longer than the upstream that `mcp` refers to.
  const linkSource = { name, metadata: { mcp: upstreamOrigin({ server: key, tool: tool.name }) } };
  const onLink = (block: Message) => links.note(block, linkSource);
  const execute = (context: ToolContext) =>
    // One `then` for both outcomes, because every call runs through here.
    upstream.call(tool, context).then(
      (answer) => {
        try {
          return toolAnswer(answer, onLink);
        } catch (thrown) {
          throw toToolError(source, tool, thrown);
        }
      },
      (thrown: unknown) => {
        throw toToolError(source, tool, thrown);
      },
    );
  // The method of an API's operation says whether it only reads, and the operator chose the API.
  const isRead = entry.api !== undefined && tool.annotations?.readOnlyHint === true;
  const info: ToolInfo = {
    name,
    displayName: `${key}/${cleanText(tool.name)}`,
    parameters: usableSchema(tool.inputSchema).schema,
    ...defined({
      description: described === undefined ? undefined : cleanText(described),
      title: title === "" ? undefined : title,
      // Clients that know the tool by its name before it was renamed can still call it.
      aliases: name === own ? undefined : [own],
      outputSchema: tool.outputSchema && usableSchema(tool.outputSchema).schema,
    }),
    execute,
    metadata: {
      category: entry.api === undefined ? "mcp" : "api",
      tags: [entry.api === undefined ? "mcp" : "api", key, ...tagsOf(tool)],
      outputCheck: "warn",
      ...defined({
        timeout: limits.call ?? entry.timeout,
        idleTimeout: limits.idle,
        // The operator's hints count like the metadata of a tool of the rack's own: a destructive tool asks first.
        dangerous:
          isNamed(ask, tool.name) || hints?.destructiveHint === true || asksFirst(entry, tool) || undefined,
        readOnly: hints?.readOnlyHint ?? (isRead || undefined),
        idempotent: hints?.idempotentHint,
        openWorld: hints?.openWorldHint,
        // The hints about the tool. Where they are the server's own, the rack relies on them only to say whether
        // a failed call may be repeated.
        annotations: usableAnnotations(tool.annotations),
        _meta: tool._meta,
      }),
      mcp,
    },
    createdAt: Date.now(),
    disabled: isNamed(disable, tool.name),
    origin: `${entry.api === undefined ? "mcp server" : "api"} ${key}`,
  };
  return isQuarantined ? refusing(info, quarantined(source, tool.name)) : info;
}

/** Whether an operation of an API waits for a person: by its entry, or because it does more than read. */
function asksFirst({ api }: ServerEntry, { name, annotations = {} }: UpstreamTool): boolean {
  if (api === undefined) return false;
  return api.approve === undefined ? annotations.readOnlyHint !== true : isNamed(api.approve, name);
}

/** The tags that an API's description gives an operation. */
function tagsOf({ _meta }: UpstreamTool): string[] {
  const { tags } = asRecord(asRecord(_meta)["toolrack/api"]);
  return Array.isArray(tags) ? tags.filter((tag) => typeof tag === "string").map(cleanText) : [];
}

type Hints = NonNullable<NonNullable<ServerEntry["toolrack"]>["annotations"]>[string];

/** The hints of the entry for the tool; of several patterns that fit its name, the last one counts. */
function hintsFor({ toolrack: { annotations = {} } = {} }: ServerEntry, name: string): Hints | undefined {
  const fitting = Object.entries(annotations).filter(([pattern]) => matchesPattern(pattern, name));
  return fitting.length === 0 ? undefined : Object.assign({}, ...fitting.map(([, hints]) => hints));
}

function withHints(tool: UpstreamTool, hints: Hints | undefined): UpstreamTool {
  return hints === undefined ? tool : { ...tool, annotations: { ...tool.annotations, ...hints } };
}

/** The tool while its server is switched off. */
export function switchedOff(tool: ToolInfo, source: Named): ToolInfo {
  const remedy = `Switch it on: ${commandFor("enable", source.key)}`;
  return refusing(tool, `The ${nameOf(source)} is switched off, and its tools with it. ${remedy}`);
}

/** Disables the tool. It refuses every call, even when something enables it again. */
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

export function quarantined(source: Named, name: string): string {
  const remedy = `Look at the change and approve it: ${commandFor("approve", source.key, name)}`;
  return `The tool "${name}" of the ${nameOf(source)} has changed its definition since it was approved, so it is switched off. ${remedy}`;
}

/** Throws when the schema excludes objects. A schema without a type accepts them. */
function requireObjects({ type }: UpstreamTool["inputSchema"]): void {
  if (Array.isArray(type) ? type.includes("object") : type === undefined || type === "object") return;
  throw new Error(
    `Its inputSchema is of the type ${JSON.stringify(type)}, while arguments are always an object: nobody could call it.`,
  );
}

/** Turns a failure of the server into an error that names the server. */
function toToolError(source: Named, { annotations = {} }: UpstreamTool, thrown: unknown): unknown {
  if (!(thrown instanceof UpstreamError)) return thrown;
  const { kind, facts } = thrown;
  const { status = 0 } = facts;
  // The tool may have done its work. With 502 and 504, a gateway got no usable answer from the server.
  const isCut = kind === "refused" && (status === 502 || status === 504);
  const mayHaveRun = isCut || ["lost", "broken", "timeout"].includes(kind);
  const isRepeatable = annotations.readOnlyHint === true || annotations.idempotentHint === true;
  return new ToolExecutionError(describeFailure(source, "the call", thrown), {
    cause: thrown,
    recoverable: !mayHaveRun || isRepeatable,
    data: { server: source.key, kind, ...facts },
  });
}

/**
 * How many characters an error shows of a text that stands in the place of blocks. The text may be the whole
 * answer of the tool.
 */
const LONGEST_TEXT = 300;

/**
 * Checks the answer to `tools/call` and returns it unchanged if it is valid. Adds the missing text to a result that has
 * only `structuredContent`, and turns an `isError` that is no boolean into one. Calls `onLink` for each block that
 * links to a resource or contains one. Throws for any other form, because nobody could tell whether the call succeeded.
 */
function toolAnswer(given: unknown, onLink: (block: Message) => void): unknown {
  if (!isRecord(given)) throw brokenResult("is no object");
  const { content, isError } = given;
  if (!Array.isArray(content)) return withContent(given, onLink);
  for (let at = 0; at < content.length; at++) {
    const fault = faultOf(content[at], onLink);
    if (fault !== undefined) throw brokenResult(`has in content[${at}] ${fault}`);
  }
  if (isError === undefined || typeof isError === "boolean") return given;
  return { ...given, isError: Boolean(isError) };
}

function withContent(given: Message, onLink: (block: Message) => void): unknown {
  const { content, structuredContent, isError } = given;
  if (typeof content === "string")
    throw brokenResult(`has a text as content and not a list of blocks: ${shown(content)}`);
  if (content !== undefined && content !== null)
    throw brokenResult("has a content that is no list of blocks");
  const isStructured = structuredContent !== undefined && structuredContent !== null;
  // A failed tool needs no content.
  if (!isStructured && !isError) throw brokenResult("has neither content nor structuredContent");
  const text = isStructured ? [{ type: "text", text: JSON.stringify(structuredContent) }] : [];
  return toolAnswer({ ...given, content: text }, onLink);
}

/** What is wrong with a block of a result; undefined if nothing is. Blocks of unknown types are allowed. */
function faultOf(block: unknown, onLink: (block: Message) => void): string | undefined {
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

function brokenResult(fault: string): UpstreamError {
  return new UpstreamError(
    "broken",
    `Its result ${fault}. The tool may have done its work all the same: look before you call it again, and tell whoever runs the server.`,
  );
}
