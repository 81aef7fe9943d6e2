import type { JsonSchemaObject } from "@toolrack/core";
import type { SkillTool } from "../../api/index.ts";
import { isRecord } from "../../text/index.ts";

/** A broken rule of the skill format: the text `skills.rules.KEY` and its parameters. */
export interface Breach {
  readonly key: string;
  readonly named: Readonly<Record<string, string | number>>;
}

const LONGEST_DESCRIPTION = 1_024;
const LONGEST_COMPATIBILITY = 500;
const MOST_LINES = 500;
const knownKeys = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/** What other programs that read skills would refuse or warn about. The rack itself accepts such skills. */
export function breachesOf(skill: {
  readonly name: string;
  readonly description: string;
  readonly instructions: string;
  readonly frontMatter: unknown;
}): Breach[] {
  const frontMatter = isRecord(skill.frontMatter) ? skill.frontMatter : {};
  const breaches: Breach[] = [];
  const add = (isBroken: boolean, key: Breach["key"], named: Breach["named"] = {}) => {
    if (isBroken) breaches.push({ key, named });
  };
  add(!isPlainName(String(frontMatter.name ?? skill.name)), "name");
  const { length } = [...skill.description];
  add(skill.description.trim() === "", "noDescription");
  add(length > LONGEST_DESCRIPTION, "longDescription", { count: length, most: LONGEST_DESCRIPTION });
  for (const key of ["license", "compatibility", "allowed-tools"]) {
    add(frontMatter[key] !== undefined && typeof frontMatter[key] !== "string", "notText", { key });
  }
  const { compatibility, metadata } = frontMatter;
  const isLong = typeof compatibility === "string" && [...compatibility].length > LONGEST_COMPATIBILITY;
  add(isLong, "longCompatibility", { most: LONGEST_COMPATIBILITY });
  const isTexts = isRecord(metadata) && Object.values(metadata).every((value) => typeof value === "string");
  add(metadata !== undefined && !isTexts, "metadataTexts");
  const unknown = Object.keys(frontMatter).filter((key) => !knownKeys.includes(key));
  add(unknown.length > 0, "unknownKeys", { names: unknown.join(", ") });
  const lines = skill.instructions.split("\n").length;
  add(lines > MOST_LINES, "manyLines", { count: lines, most: MOST_LINES });
  return breaches;
}

export function isPlainName(name: string): boolean {
  return name.length <= 64 && /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name.trim());
}

/**
 * The schema of the arguments in a tool's `usage`: a JSON Schema, `{parameters}`, `{properties}` or a list
 * of parameters.
 */
export function parametersOf(usage: unknown): JsonSchemaObject {
  if (Array.isArray(usage)) return fromList(usage);
  if (!isRecord(usage)) return { type: "object" };
  if (usage.type === "function" && isRecord(usage.function)) return parametersOf(usage.function);
  if (isRecord(usage.parameters) || Array.isArray(usage.parameters)) return parametersOf(usage.parameters);
  return isRecord(usage.properties) ? withPlainProperties(usage) : { type: "object" };
}

function fromList(list: readonly unknown[]): JsonSchemaObject {
  const named = list.filter(isRecord).filter(({ name }) => typeof name === "string" && name !== "");
  const properties = Object.fromEntries(named.map(({ name, ...rest }) => [name, rest]));
  return withPlainProperties({ type: "object", properties });
}

/**
 * Removes the rack's own keywords from the properties: `in`, `as`, and `required: true`, which the list
 * `required` replaces.
 */
function withPlainProperties(schema: Record<string, unknown>): JsonSchemaObject {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    if (!isRecord(property)) return [name, property];
    const { in: _in, as: _as, required: own, ...rest } = property;
    if (own === true) required.add(name);
    return [name, Array.isArray(own) ? { ...rest, required: own } : rest];
  });
  return { type: "object", ...schema, properties: Object.fromEntries(properties), required: [...required] };
}

/** The schema of a parameter list, the shortest way to declare parameters. */
export function parameterListSchema(type: SkillTool["type"]): JsonSchemaObject {
  const types = ["string", "integer", "number", "boolean", "array", "object"];
  const places = { in: { type: "string", enum: ["query", "path", "header", "body"] } };
  return {
    type: "array",
    items: {
      type: "object",
      properties: {
        name: { type: "string" },
        type: { type: "string", enum: types, default: "string" },
        description: { type: "string" },
        required: { type: "boolean" },
        ...(type === "http" ? places : {}),
      },
      required: ["name", "type"],
      additionalProperties: true,
    },
  };
}

/** Files in the form of the API: text, or Base64 for binary files. */
export type PackedFiles = Readonly<Record<string, string | { readonly base64: string }>>;

export type Packed = { readonly files: PackedFiles } | { readonly archive: string };

/** Files that other programs keep in folders. They are not imported. */
const skipped = /(^|\/)(\.git|node_modules|__pycache__)\/|(^|\/)\.DS_Store$/;

/** Packs the chosen archive, folder or files. Paths in a folder begin with its name. */
export async function packFiles(chosen: readonly File[]): Promise<Packed> {
  const [first] = chosen;
  if (chosen.length === 1 && first !== undefined && /\.zip$/i.test(first.name)) {
    return { archive: toBase64(new Uint8Array(await first.arrayBuffer())) };
  }
  const files: Record<string, string | { base64: string }> = {};
  for (const file of chosen) {
    const path = file.webkitRelativePath || file.name;
    if (!skipped.test(path)) files[path] = contentOf(new Uint8Array(await file.arrayBuffer()));
  }
  return { files };
}

function contentOf(bytes: Uint8Array): string | { base64: string } {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { base64: toBase64(bytes) };
  }
}

/** Works in pieces, because the number of arguments of a function call is limited. */
function toBase64(bytes: Uint8Array): string {
  const PIECE = 0x8000;
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) {
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  }
  return btoa(text);
}
