import { isCanonicalName } from "@toolrack/core";
import {
  type NewSkillTool,
  type SkillToolType,
  type StoredSkillTool,
  skillToolTypes,
} from "../../store/skills/skill-store.ts";

const fields = [
  "id",
  "name",
  "displayName",
  "description",
  "type",
  "usage",
  "command",
  "endpoint",
  "method",
  "enabled",
];

/** Reads `tools.json`: `{"tools": [...]}` or the list alone. Throws with the place that is wrong. */
export function readToolsFile(text: string): NewSkillTool[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    throw new Error(`tools.json is not JSON: ${thrown instanceof Error ? thrown.message : thrown}`);
  }
  const list = Array.isArray(value) ? value : (value as { tools?: unknown } | null)?.tools;
  if (!Array.isArray(list)) throw new Error('tools.json must be a list of tools, or {"tools": [...]}.');
  return list.map((entry, position) => readTool(entry, `tools[${position}]`));
}

export function writeToolsFile(tools: readonly StoredSkillTool[]): string {
  const entries = tools.map((tool) => {
    const { id, name, displayName, description, type, command, endpoint, method, enabled } = tool;
    return {
      id,
      name,
      ...(displayName === undefined ? {} : { displayName }),
      description,
      type,
      ...(tool.usage === "" ? {} : { usage: asWritten(tool.usage) }),
      ...(command === undefined ? {} : { command }),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(method === undefined ? {} : { method }),
      ...(enabled ? {} : { enabled }),
    };
  });
  return `${JSON.stringify({ tools: entries }, null, 2)}\n`;
}

/** JSON as a value, when writing it back gives the very same text; anything else stays the text that it is. */
function asWritten(usage: string): unknown {
  try {
    const value: unknown = JSON.parse(usage);
    return typeof value === "object" && JSON.stringify(value) === usage ? value : usage;
  } catch {
    return usage;
  }
}

function readTool(entry: unknown, place: string): NewSkillTool {
  if (typeof entry !== "object" || entry === null) throw new Error(`${place} must be an object.`);
  const given = entry as Record<string, unknown>;
  const unknown = Object.keys(given).find((key) => !fields.includes(key));
  if (unknown !== undefined)
    throw new Error(`${place} has an unknown field "${unknown}"; there are ${fields.join(", ")}.`);
  const { name, type, id, usage, enabled } = given;
  if (typeof name !== "string" || name.trim() === "") throw new Error(`${place}.name must be a text.`);
  if (!isToolType(type)) throw new Error(`${place}.type must be one of ${skillToolTypes.join(", ")}.`);
  if (id !== undefined && (typeof id !== "string" || !isCanonicalName(id))) {
    throw new Error(`${place}.id must be letters, digits, _ and -, at most 64.`);
  }
  return {
    ...(id === undefined ? {} : { id }),
    name,
    type,
    ...textIn(given, "displayName", place),
    ...textIn(given, "description", place),
    ...(usage === undefined ? {} : { usage: typeof usage === "string" ? usage : JSON.stringify(usage) }),
    ...textIn(given, "command", place),
    ...textIn(given, "endpoint", place),
    ...textIn(given, "method", place),
    ...(enabled === false ? { enabled } : {}),
  };
}

function textIn<Field extends string>(
  given: Record<string, unknown>,
  field: Field,
  place: string,
): { [Key in Field]?: string } {
  const value = given[field];
  if (value === undefined || value === null) return {};
  if (typeof value !== "string") throw new Error(`${place}.${field} must be a text.`);
  // The only key that it has.
  return { [field]: value } as { [Key in Field]?: string };
}

function isToolType(type: unknown): type is SkillToolType {
  return skillToolTypes.some((known) => known === type);
}
