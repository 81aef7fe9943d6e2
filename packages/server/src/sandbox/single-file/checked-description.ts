import { compileSchema, type JsonSchemaObject } from "@toolrack/core";
import { DependencyError, defined, isRecord, LoadError, reasonOf } from "../../helpers/index.ts";
import { type DependencyMap, parseDependencies } from "../dependencies.ts";
import { type BusinessMatch, type RawDescription, readMatch } from "./messages.ts";

export interface Description {
  readonly metadata: DeclaredMetadata;
  readonly parameters: JsonSchemaObject;
  /** The JSON Schema of the settings and secrets that the tool needs. */
  readonly environment?: JsonSchemaObject;
  readonly dependencies: DependencyMap;
  readonly businessErrors: readonly DeclaredError[];
  /** Names of the operations that a dry run replaces by mocks. */
  readonly bridges: readonly string[];
  /** Hosts that the tool declares it wants to reach; undefined when it declares nothing. */
  readonly hosts?: readonly string[];
  readonly warnings: readonly string[];
}

export interface DeclaredMetadata {
  readonly id: string;
  readonly name?: string;
  readonly description: string;
  readonly version?: string;
  readonly author?: string;
  readonly [key: string]: unknown;
}

/** A failure that the tool's author declared. `match` tells people which errors count as this failure. */
export type DeclaredError = BusinessMatch & { readonly match?: string };

/** The `metadata.singleFile` of a single-file tool, which `toolrack show`, the API and the console show. */
export interface SingleFileManual
  extends Pick<Description, "environment" | "dependencies" | "businessErrors" | "bridges"> {
  /** Hosts that the tool may reach, as `grantedHosts` computes them. */
  readonly hosts: readonly string[];
  readonly examples: readonly unknown[];
}

const LARGEST_ANSWER = 256 * 1024;
const LONGEST_ID = 200;
const MOST_ENTRIES = 200;
const variable = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/;
const host = /^(?:\*|(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?$/;

const methods = {
  getMetadata: 'Return an object such as { id: "my-tool", name: "My tool", description: "What it does." }.',
  getSchema: "Return { parameters, environment }, each a JSON Schema of an object.",
  getDependencies: 'Return an object such as { "lodash": "^4.17.21" }.',
  getBusinessErrors: "Return a list of { code, description, match, solution, retryable }.",
  getBridges: "Return an object of { real(args, api), mock(args, api) } by the name of the operation.",
  execute: "Write execute as a function of the exported object.",
} as const;

/** Checks what the tool's methods returned. Throws `LoadError` that says which method is wrong and how. */
export function checkDescription(raw: RawDescription): Description {
  checkMembers(raw);
  const { answers } = raw;
  const metadata = checkMetadata(answers.getMetadata);
  return {
    metadata,
    ...checkSchemas(raw),
    ...defined({ hosts: checkHosts(metadata) }),
    dependencies: checkDependencies(answers.getDependencies),
    businessErrors: checkErrors(answers.getBusinessErrors),
    bridges: checkBridges(answers.getBridges),
  };
}

/** Checks the dependencies apart from the rest, because packages may be needed to describe the tool. */
export function checkDependencies(declared: unknown): DependencyMap {
  try {
    return parseDependencies(declared);
  } catch (thrown) {
    throw dependencyFailure(thrown, "getDependencies() is wrong: ");
  }
}

/** Turns a `DependencyError` into a `LoadError`; returns any other error unchanged. */
export function dependencyFailure(thrown: unknown, prefix = ""): unknown {
  if (!(thrown instanceof DependencyError)) return thrown;
  const { message, remedy, isTemporary } = thrown;
  return new LoadError(`${prefix}${message}`, remedy, { cause: thrown, retry: isTemporary });
}

function checkMembers({ members, answers }: RawDescription): void {
  for (const [name, kind] of Object.entries(members)) {
    if (kind === "function") continue;
    const article = /^[aeiou]/.test(kind) ? "an" : "a";
    const remedy = new Map<string, string>(Object.entries(methods)).get(name);
    throw new LoadError(
      `${name} is ${article} ${kind} instead of a function.`,
      remedy ?? `Write it as a method: ${name}() { … }.`,
    );
  }
  for (const name of ["getMetadata", "execute"] as const) {
    if (members[name] === undefined) throw new LoadError(`It has no ${name}().`, methods[name]);
  }
  for (const [name, answer] of Object.entries(answers)) {
    const length = JSON.stringify(answer)?.length ?? 0;
    if (length <= LARGEST_ANSWER) continue;
    throw new LoadError(
      `${name}() answered with ${length} characters; ${LARGEST_ANSWER} are allowed.`,
      "Keep data out of it, and load it in execute().",
    );
  }
}

/** The checks of call settings in the metadata, with their keys. A wrong setting would break every call. */
const settings: readonly [fits: (value: unknown) => boolean, ...keys: string[]][] = [
  [isCount, "timeout", "idleTimeout"],
  [(value) => isCount(value) && Number.isInteger(value) && Number(value) >= 1, "concurrency"],
  [(value) => typeof value === "boolean", "dangerous", "readOnly", "idempotent", "openWorld", "strict"],
  [isText, "confirm", "category"],
  [isTexts, "tags", "aliases"],
];

function checkMetadata(answer: unknown): DeclaredMetadata {
  if (!isRecord(answer)) throw wrong("getMetadata", answer, "an object");
  const { id, description } = answer;
  if (!isText(id) || id.trim() === "" || id.length > LONGEST_ID) {
    throw new LoadError(
      `getMetadata() returned ${kindOf(id)} as the id, instead of a text of up to ${LONGEST_ID} characters.`,
      methods.getMetadata,
    );
  }
  for (const key of ["name", "description", "version", "author"]) {
    const value = answer[key] ?? undefined;
    if (value === undefined || isText(value)) continue;
    throw new LoadError(
      `getMetadata() returned ${kindOf(value)} as the ${key}, instead of a text.`,
      `Write the ${key} as a text.`,
    );
  }
  for (const [fits, ...keys] of settings) {
    const key = keys.find((one) => answer[one] !== undefined && !fits(answer[one]));
    if (key === undefined) continue;
    throw new LoadError(
      `getMetadata() returned ${kindOf(answer[key])} as ${key}, which cannot be used.`,
      `Correct ${key}, or leave it out.`,
    );
  }
  return { ...answer, id: id.trim(), description: isText(description) ? description : "" };
}

function checkSchemas({
  answers,
  members,
}: RawDescription): Pick<Description, "parameters" | "environment" | "warnings"> {
  if (members.getSchema === undefined) {
    const warning = "It has no getSchema(), so its arguments are not checked. Add it.";
    return { parameters: { type: "object" }, warnings: [warning] };
  }
  const answer = answers.getSchema;
  if (!isRecord(answer)) throw wrong("getSchema", answer, "an object");
  const isFlat = answer.parameters === undefined && answer.environment === undefined;
  const parameters = checkSchema("parameters", isFlat ? answer : (answer.parameters ?? {}));
  if (isFlat || answer.environment === undefined || answer.environment === null)
    return { parameters, warnings: [] };
  const environment = checkSchema("environment", answer.environment);
  for (const name of Object.keys(environment.properties ?? {})) {
    if (variable.test(name)) continue;
    throw new LoadError(
      `getSchema() declares the environment variable "${name}", which is not a name for one.`,
      "Use letters, digits and _, not beginning with a digit.",
    );
  }
  return { parameters, environment, warnings: [] };
}

function checkSchema(which: "parameters" | "environment", schema: unknown): JsonSchemaObject {
  if (!isRecord(schema)) {
    throw new LoadError(`getSchema() returned ${kindOf(schema)} as ${which}.`, methods.getSchema);
  }
  const { type = "object" } = schema;
  const complete = { ...schema, type };
  try {
    if (type !== "object") throw new Error(`Its type is ${JSON.stringify(type)} instead of "object".`);
    if (schema.properties !== undefined && !isRecord(schema.properties)) {
      throw new Error(`Its properties are ${kindOf(schema.properties)} instead of an object.`);
    }
    compileSchema(complete).jsonSchema();
  } catch (thrown) {
    throw new LoadError(
      `getSchema() returned ${which} that are no JSON Schema. ${reasonOf(thrown)}`,
      "Correct the schema at this place.",
      { cause: thrown },
    );
  }
  return complete;
}

function checkErrors(answer: unknown): DeclaredError[] {
  if (answer === undefined || answer === null) return [];
  if (!Array.isArray(answer) || answer.length > MOST_ENTRIES) {
    throw wrong("getBusinessErrors", answer, `a list of up to ${MOST_ENTRIES}`);
  }
  return answer.map((entry: unknown, index) => {
    if (!isRecord(entry) || !isText(entry.code) || entry.code === "") {
      const came = isRecord(entry) ? `an entry whose code is ${kindOf(entry.code)}` : kindOf(entry);
      throw new LoadError(
        `getBusinessErrors() returned ${came} at position ${index + 1}.`,
        methods.getBusinessErrors,
      );
    }
    const { code, match } = entry;
    if (match !== undefined && !isText(match)) {
      throw new LoadError(
        `getBusinessErrors() returned ${kindOf(match)} as the match of ${code}.`,
        "A match is a text, a regular expression or a function.",
      );
    }
    return { ...readMatch(entry), ...defined({ match }) };
  });
}

function checkBridges(answer: unknown): string[] {
  if (answer === undefined || answer === null) return [];
  if (isTexts(answer)) return answer;
  throw wrong("getBridges", answer, "an object");
}

/** Reads the declared hosts: `network: ["api.example.com"]`, or such a list as `network.hosts` or `hosts`. */
function checkHosts({ network, hosts }: DeclaredMetadata): string[] | undefined {
  const declared = network ?? hosts;
  if (declared === undefined || declared === null) return undefined;
  const list = isRecord(declared) ? declared.hosts : declared;
  if (isTexts(list) && list.every((name) => host.test(name))) return list;
  throw new LoadError(
    `getMetadata() returned ${kindOf(list)} as network, instead of a list of hosts.`,
    'Write hosts such as ["api.example.com", "*.example.org"], without https:// and paths.',
  );
}

function wrong(method: keyof typeof methods, answer: unknown, expected: string): LoadError {
  return new LoadError(`${method}() returned ${kindOf(answer)} instead of ${expected}.`, methods[method]);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(isText);
}

function isCount(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

const LONGEST = 60;

/** A value in a few words, for errors: `the text "abc"`, `a list of 3`, `nothing`. */
function kindOf(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : `a list of ${value.length}`;
  switch (typeof value) {
    case "string":
      return `the text ${JSON.stringify(value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value)}`;
    case "number":
    case "boolean":
      return `the ${typeof value} ${value}`;
    case "object":
      return "an object";
    default:
      return `a ${typeof value}`;
  }
}
