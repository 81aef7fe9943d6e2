import { isRecord } from "../../../json/is-record.ts";
import type { Message } from "../protocol/json-rpc.ts";
import { UpstreamError } from "../protocol/upstream-error.ts";

/** So much is shown of a text that stands where blocks should be: it may be all that the tool had to say. */
const LONGEST_TEXT = 300;

/**
 * The answer to `tools/call`, which is what was given wherever that has the form of one. A result without content but
 * with `structuredContent` is given the text that it should have had, and `isError` that is neither true nor false means
 * a failure unless it is empty. `onLink` is told of each block that links to a resource or holds one. Throws where it is of another form: nobody could tell whether the call came to anything.
 */
export function toolAnswer(given: unknown, onLink: (block: Message) => void): unknown {
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

function withContent(given: Message, onLink: (block: Message) => void): unknown {
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

function odd(fault: string): UpstreamError {
  return new UpstreamError(
    "broken",
    `Its result ${fault}. The tool may have done its work all the same: look before you call it again, and tell whoever runs the server.`,
  );
}
