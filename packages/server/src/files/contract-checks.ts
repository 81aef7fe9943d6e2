import { metadataProblem, misplacedMetadata } from "@toolrack/core/internal";
import { isJsonType, propertiesOf, requiredOf, typesOf } from "@toolrack/core/internal/schema";
import { isRecord, LoadError, type LoadFailure } from "../helpers/index.ts";

/**
 * What a tool file of contract 1 or 2 lacks that its contract asks for. Every text says what is missing, what follows,
 * and what to write.
 */

/** Keys that let a tool run without consent or permission when they are silently ignored. */
const guards = ["dangerous", "confirm", "permissions", "disabledReason"];

interface Definition {
  readonly name: string;
  readonly description: unknown;
  /** The schema of the arguments, if there is one. */
  readonly parameters: unknown;
  /** The object in which the author wrote the name. */
  readonly written: object;
}

/** The warnings for a definition of contract 1 or 2. Throws `LoadError` for one that could not be run as it is meant. */
export function definitionWarnings({ name, description, parameters, written }: Definition): string[] {
  const warnings: string[] = [];
  for (const key of misplacedMetadata(written)) {
    const problem = metadataProblem(name, key);
    if (guards.includes(key)) throw new LoadError(problem, "Until then the tool is not served.");
    warnings.push(problem);
  }
  if (typeof description !== "string" || description.trim() === "")
    warnings.push("It has no description, so a model cannot know when to use it. Write one.");
  return isRecord(parameters) && isJsonSchema(parameters)
    ? [...warnings, ...schemaWarnings(parameters)]
    : warnings;
}

/** Whether the schema is none of a library such as Zod, nor an object of such schemas. */
function isJsonSchema(schema: Readonly<Record<string, unknown>>): boolean {
  const isOfLibrary = (value: unknown) => isRecord(value) && ("~standard" in value || "_def" in value);
  return !isOfLibrary(schema) && !Object.values(schema).some(isOfLibrary);
}

function schemaWarnings(schema: Readonly<Record<string, unknown>>): string[] {
  const warnings: string[] = [];
  const { type } = schema;
  // In a composed schema, `type` and `properties` may be declared in one of the parts.
  const isComposed = ["$ref", "allOf", "anyOf", "oneOf"].some((keyword) => keyword in schema);
  if (type === undefined && !isComposed)
    warnings.push('Its schema has no type. Write type: "object" beside properties.');
  if (isJsonType(type) && type !== "object") {
    throw new LoadError(
      `Its schema has the type "${type}", but arguments are always an object, so no call could run.`,
      'Write type: "object", and the parameters into properties.',
    );
  }
  const properties = Object.entries(propertiesOf(schema));
  const names = new Set(properties.map(([name]) => name));
  const undeclared = requiredOf(schema).filter((name) => !names.has(name));
  if (undeclared.length > 0 && (schema.properties !== undefined || !isComposed))
    warnings.push(`required names ${list(undeclared)}, which properties lacks. Declare it there.`);
  const untyped = properties.filter(([, property]) => isRecord(property) && !isTyped(property));
  if (untyped.length > 0)
    warnings.push(`No type is given for ${listNames(untyped)}, so any value passes. Add type.`);
  const unexplained = properties.filter(
    ([, property]) => isRecord(property) && !("$ref" in property) && isBlank(property.description),
  );
  if (unexplained.length > 0)
    warnings.push(`No description is given for ${listNames(unexplained)}, so a model has to guess. Add one.`);
  return warnings;
}

function isTyped(property: Readonly<Record<string, unknown>>): boolean {
  const choices = ["$ref", "anyOf", "oneOf", "allOf"];
  return typesOf(property) !== undefined || choices.some((keyword) => keyword in property);
}

function isBlank(text: unknown): boolean {
  return typeof text !== "string" || text.trim() === "";
}

function listNames(properties: readonly (readonly [string, unknown])[]): string {
  return list(properties.map(([name]) => name));
}

function list(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(", ");
}

/** Contract 1: lower case and underscores, and a file that is named after its action. */
export function nameWarnings(action: string, stem: string, folders: readonly string[]): string[] {
  const warnings: string[] = [];
  const parts = [{ what: "name", text: action }, ...folders.map((text) => ({ what: "folder", text }))];
  for (const { what, text } of parts) {
    const wanted = text.toLowerCase().replaceAll(/[^a-z0-9_]+/g, "_");
    if (wanted !== text)
      warnings.push(
        `Its ${what} "${text}" has capitals, hyphens or other characters that this contract does not use. ` +
          (/[a-z0-9]/.test(wanted) ? `Write "${wanted}".` : "Use lower-case letters and underscores."),
      );
  }
  if (stem !== action)
    warnings.push(`Its file is named "${stem}", but its name is "${action}". Give both the same name.`);
  return warnings;
}

/** The members of the host application that a handler of contract 1 uses. */
export interface HostMembers {
  readonly service: object;
  readonly model: object;
}

const members = { service: "services", model: "models" } as const;
const uses = /\b(?:ctx|context)\s*\.\s*(service|model)\s*\.\s*([A-Za-z_$][\w$]*)(?![\w$]|\s*\?\.)/g;
/** Members that a handler takes out of the context: by a parameter `{ service }`, or by `const { service } = ctx`. */
const takenOut = /,\s*\{([^{}]*)\}\s*\)\s*(?:=>|\{)|\{([^{}]*)\}\s*=\s*(?:ctx|context)\b(?!\s*\.)/g;
const bareUses = /(?<![\w$.])(service|model)\s*\.\s*([A-Za-z_$][\w$]*)(?![\w$]|\s*\?\.)/g;
const taken = /\{([^{}]*)\}\s*=\s*(?:ctx|context)\s*\.\s*(service|model)\b(?!\s*\.)/g;

/** What the handler's own code takes from `ctx.service` and `ctx.model` and the config does not give. */
export function missingMembers(handler: (...args: never[]) => unknown, host: HostMembers): string[] {
  const code = String(handler);
  const bare = [...code.matchAll(takenOut)].flatMap(([, first, second = first]) =>
    second!.split(",").map((name) => name.trim()),
  );
  const used = [
    ...[...code.matchAll(uses)].map(([, kind, name]) => [kind, name]),
    ...[...code.matchAll(bareUses)]
      .map(([, kind = "", name]) => [kind, name] as const)
      .filter(([kind]) => bare.includes(kind)),
    ...[...code.matchAll(taken)].flatMap(([, names = "", kind]) =>
      names.split(",").map((name) => [kind, name.split(/[:=]/)[0]!.trim()]),
    ),
  ] as [keyof HostMembers, string][]; // The patterns match these two words only.
  const missing = used.filter(([kind, name]) => /^[A-Za-z_$]/.test(name) && !has(host[kind], name));
  const hints = missing.map(
    ([kind, name]) =>
      `ctx.${kind}.${name} is missing: give it in toolrack.config.ts, ${members[kind]}: { ${name}: … }.`,
  );
  return [...new Set(hints)];
}

/** A proxy may answer for names that it does not list. */
function has(holder: object, name: string): boolean {
  return name in holder || (holder as Record<string, unknown>)[name] !== undefined; // Any object may be read by its keys.
}

/** Adds the hints to an error of the kind that a missing member causes. */
export function withHints(thrown: unknown, hints: readonly string[]): unknown {
  if (thrown instanceof TypeError && /undefined|not a function/.test(thrown.message))
    thrown.message = `${thrown.message}. ${hints.join(" ")}`;
  return thrown;
}

/** What a file that holds no tool lacks, as far as it can be told which contract was meant. */
export function missingPart(exports: unknown): Pick<LoadFailure, "code" | "reason" | "remedy"> {
  const named = isRecord(exports) ? exports : {};
  const candidate = isRecord(named.default) ? named.default : named;
  if ("inputSchema" in candidate || ("name" in candidate && "description" in candidate)) {
    const [other] = Object.entries(candidate).find(([, value]) => typeof value === "function") ?? [];
    const found =
      "handler" in candidate
        ? `Its handler is ${candidate.handler === null ? "null" : typeof candidate.handler}, no function.`
        : `Its tool has no handler${other === undefined ? "" : `, but a function "${other}"`}.`;
    const remedy = other === undefined ? "Add one" : "Rename it";
    return { reason: found, remedy: `${remedy}: handler: async (args, ctx) => { … }.` };
  }
  if (isRecord(named.schema)) {
    return {
      reason: "It exports a schema, but no default function that could run.",
      remedy: "Add one: export default async function (request) { … }.",
    };
  }
  const [maker] =
    Object.entries(named).find(
      ([key, value]) => /^create\w*Tools?$/.test(key) && typeof value === "function" && value.length > 0,
    ) ?? [];
  if (maker !== undefined) {
    return {
      reason: `Its function ${maker} needs arguments, and nobody has them when the file is loaded.`,
      remedy: `Export one without arguments that calls it: export const createTool = () => ${maker}(…).`,
    };
  }
  return {
    code: "no_tool",
    reason: "It exports no tool, and no tool imports it.",
    remedy:
      "Export an object with a handler, a schema with a default function, or a value made by Tool.define.",
  };
}
