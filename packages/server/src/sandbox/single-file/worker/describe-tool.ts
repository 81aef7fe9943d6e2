import type { RawDescription, ThrownData } from "../messages.ts";
import { describeThrown } from "./describe-thrown.ts";
import { encodeJson } from "./encode-json.ts";
import type { ToolObject } from "./load-tool.ts";
import { isRegExp } from "./match-error.ts";

const asked = ["getMetadata", "getSchema", "getDependencies", "getBusinessErrors", "getBridges"] as const;
const known = [...asked, "execute", "init", "cleanup", "validate", "getMockArgs", "getBridgeErrors"] as const;

/** Asks the tool's methods what it is. What they answer leaves as JSON; a test for errors leaves as text. */
export async function describeTool(tool: ToolObject): Promise<Omit<RawDescription, "missing">> {
  const answers: Record<string, unknown> = {};
  const thrown: Record<string, ThrownData> = {};
  const members: Record<string, string> = {};
  for (const name of known) if (tool[name] !== undefined) members[name] = typeof tool[name];
  for (const name of asked) {
    const method = tool[name];
    if (typeof method !== "function") continue;
    try {
      answers[name] = printable(name, await method.call(tool)) ?? null;
    } catch (error) {
      thrown[name] = describeThrown(error);
    }
  }
  return { answers, thrown, members };
}

function printable(name: (typeof asked)[number], answer: unknown): unknown {
  if (name === "getBusinessErrors" && Array.isArray(answer)) return answer.map(printableEntry);
  if (name === "getBridges" && typeof answer === "object" && answer !== null) return Object.keys(answer);
  return encodeJson(answer);
}

function printableEntry(entry: unknown): unknown {
  if (typeof entry !== "object" || entry === null) return encodeJson(entry);
  const { match, ...rest } = entry as { match?: unknown };
  const plain = encodeJson(rest) as object;
  return match === undefined ? plain : { ...plain, match: printableMatch(match) };
}

function printableMatch(match: unknown): unknown {
  if (Array.isArray(match)) return match.map(printableMatch).join(" | ");
  if (isRegExp(match)) return String(match);
  return typeof match === "function" ? "a function" : encodeJson(match);
}
