import { readFile, realpath, stat } from "node:fs/promises";
import { dirname, relative, resolve, sep } from "node:path";
import { realPathOf } from "../access/index.ts";
import { isRecord, reasonOf } from "../helpers/index.ts";

/** Where a description of an API is: a file of the workspace, or an address. */
export type SpecPlace =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "address"; readonly url: URL };

/** Fetches the text at an address. Rejects when the address may not be reached, or the text is too long. */
export type FetchText = (url: URL, mostBytes: number) => Promise<string>;

/** A description of an API in the form of OpenAPI 3.1, in which every reference leads into the document itself. */
export interface ApiDocument {
  readonly root: Readonly<Record<string, unknown>>;
  readonly place: SpecPlace;
  /** The version as it was written, such as `Swagger 2.0` or `OpenAPI 3.0.3`. */
  readonly version: string;
  /** What could not be read and was left out, such as a file that a reference names. */
  readonly problems: readonly string[];
  /** The paths of the files that the document was read from. */
  readonly files: readonly string[];
}

/** Bytes of one description with everything that it refers to. */
const MOST_BYTES = 32 * 1024 * 1024;
/** Bytes of a description in YAML: reading it takes about 80 times its size in memory, and a second for each MiB. */
const MOST_YAML = 12 * 1024 * 1024;
/** Values of a description. In YAML, a short text may stand for very many. */
const MOST_VALUES = 4_000_000;
/** Aliases of YAML times nodes: for each alias, its parser looks through the document. 20 million take two seconds. */
const MOST_LOOKUPS = 20_000_000;
/** How many of the parts that could not be read are told. */
const MOST_PROBLEMS = 50;
/** Files and addresses that a description may refer to. */
const MOST_PARTS = 100;
/** How deep values may be nested. The upgrade to OpenAPI 3.1 calls itself for each level. */
const DEEPEST = 400;
/** The member under which the parts that the description refers to are kept. */
const PARTS = "x-toolrack-parts";

/** Thrown for a description that cannot be used. The message is for people. */
export class SpecError extends Error {
  override name = "SpecError";
}

/** Reads a description with all that it refers to. Throws `SpecError` when it cannot be used as a whole. */
export async function readDocument(place: SpecPlace, fetchText: FetchText): Promise<ApiDocument> {
  const reader = new PartReader(place, fetchText);
  const given = await reader.read(place);
  const version = versionOf(given);
  const parts = await reader.collect(given, place);
  const whole = Object.keys(parts).length === 0 ? given : { ...given, [PARTS]: parts };
  const { upgrade } = await import("@scalar/openapi-upgrader");
  const { problems, files } = reader;
  try {
    const root: unknown = upgrade(whole, "3.1");
    if (!isRecord(root) || !isRecord(root.paths)) throw new Error("it has no paths");
    return { root, place, version, problems, files };
  } catch (thrown) {
    throw new SpecError(`${nameOf(place)} cannot be used: ${reasonOf(thrown)}.`);
  }
}

/** The name of a place, for messages. An address is shown without its query, which may hold a credential. */
export function nameOf(place: SpecPlace): string {
  return place.kind === "file" ? place.path : `${place.url.origin}${place.url.pathname}`;
}

function versionOf(given: Readonly<Record<string, unknown>>): string {
  const { swagger, openapi, asyncapi, paths, webhooks } = given;
  if (swagger !== undefined) {
    if (String(swagger) === "2.0" || swagger === 2) return "Swagger 2.0";
    throw new SpecError(
      `Swagger ${String(swagger)} is not supported. Give a description of version 2.0 or later.`,
    );
  }
  if (typeof openapi === "string" && /^3\.[0-2](?:\.|$)/.test(openapi)) {
    if (paths !== undefined) return `OpenAPI ${openapi}`;
    throw new SpecError(
      webhooks === undefined
        ? "The description has no paths."
        : "The description has webhooks only, which nobody can call.",
    );
  }
  if (openapi !== undefined)
    throw new SpecError(`OpenAPI ${String(openapi)} is not supported. Versions 3.0 to 3.2 are.`);
  const what =
    asyncapi === undefined ? 'It has neither "openapi" nor "swagger"' : "It is an AsyncAPI document";
  throw new SpecError(`${what}. Give an OpenAPI or Swagger description in JSON or YAML.`);
}

/** Reads the files or addresses of one description: only those in its own folder, or at its own origin. */
class PartReader {
  readonly problems: string[] = [];
  readonly files: string[] = [];
  readonly #start: SpecPlace;
  readonly #fetchText: FetchText;
  #bytesLeft = MOST_BYTES;

  constructor(start: SpecPlace, fetchText: FetchText) {
    this.#start = start;
    this.#fetchText = fetchText;
  }

  async read(place: SpecPlace): Promise<Record<string, unknown>> {
    const text =
      place.kind === "file"
        ? await this.#readFile(place.path)
        : await this.#fetchText(place.url, this.#bytesLeft);
    this.#bytesLeft -= Buffer.byteLength(text);
    if (this.#bytesLeft < 0) throw tooLong(nameOf(place));
    const value = await parseSpec(text, nameOf(place));
    if (!isRecord(value)) throw new SpecError(`${nameOf(place)} is no object, as an API's description is.`);
    checkExtent(value, nameOf(place));
    return value;
  }

  /**
   * Reads everything that the description refers to, and makes every reference lead into one document. A part that cannot
   * be read is reported; operations that need it are left out later.
   */
  async collect(root: Record<string, unknown>, place: SpecPlace): Promise<Record<string, unknown>> {
    const parts: Record<string, unknown> = {};
    const numbers = new Map<string, string>();
    const waiting = [{ value: root, place, prefix: "#" }];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const { value, place: here, prefix } = next;
      const found: SpecPlace[] = [];
      redirectReferences(value, (reference) => {
        const [where = "", pointer = ""] = reference.split("#", 2);
        if (where === "") return `${prefix}${pointer}`;
        const target = placeFrom(where, here);
        const key = target === undefined ? where : nameOf(target);
        if (!numbers.has(key)) {
          numbers.set(key, String(numbers.size));
          if (target === undefined) this.#report(reference, "it is neither a file nor an address of the web");
          else found.push(target);
        }
        return `#/${PARTS}/${numbers.get(key)}${pointer}`;
      });
      for (const target of found) {
        const number = numbers.get(nameOf(target))!;
        try {
          if (numbers.size > MOST_PARTS) throw new Error(`a description may refer to ${MOST_PARTS} others`);
          await this.#mayRead(target);
          const part = await this.read(target);
          parts[number] = part;
          waiting.push({ value: part, place: target, prefix: `#/${PARTS}/${number}` });
        } catch (thrown) {
          this.#report(nameOf(target), reasonOf(thrown));
        }
      }
    }
    return parts;
  }

  #report(reference: string, reason: string): void {
    if (this.problems.length < MOST_PROBLEMS)
      this.problems.push(`${reference}, to which the description refers, was not read: ${reason}`);
  }

  /** Throws for a part outside the description's own folder or origin: a description must not read other files. */
  async #mayRead(target: SpecPlace): Promise<void> {
    const start = this.#start;
    if (start.kind === "address") {
      if (target.kind === "address" && target.url.origin === start.url.origin) return;
      throw new SpecError(`only addresses of ${start.url.origin} are read for it.`);
    }
    if (target.kind === "address")
      throw new SpecError("a file's references lead to files in its own folder only.");
    const folder = await realpath(dirname(start.path));
    const inside = relative(folder, await realPathOf(target.path));
    if (inside === ".." || inside.startsWith(`..${sep}`) || resolve(inside) === inside)
      throw new SpecError("it is outside the folder of the description.");
  }

  async #readFile(path: string): Promise<string> {
    // Also one that is not there: it is read as soon as it is.
    this.files.push(path);
    try {
      const { size } = await stat(path);
      if (size > this.#bytesLeft) throw tooLong(path);
      return await readFile(path, "utf8");
    } catch (thrown) {
      if (thrown instanceof SpecError) throw thrown;
      throw new SpecError(`${path} cannot be read: ${reasonOf(thrown)}`);
    }
  }
}

function tooLong(name: string): SpecError {
  return new SpecError(`${name} is longer than ${MOST_BYTES / 1024 / 1024} MiB with what it refers to.`);
}

function placeFrom(reference: string, here: SpecPlace): SpecPlace | undefined {
  const isAddress = /^[a-z][a-z0-9+.-]+:/i.test(reference);
  if (here.kind === "file" && !isAddress) {
    try {
      return { kind: "file", path: resolve(dirname(here.path), decodeURIComponent(reference)) };
    } catch {
      return undefined; // A percent sign stands alone.
    }
  }
  const url = URL.parse(reference, here.kind === "address" ? here.url : undefined);
  return url !== null && /^https?:$/.test(url.protocol) ? { kind: "address", url } : undefined;
}

/** Parses JSON or YAML. A description in JSON is also YAML, but reading it as JSON is many times faster. */
async function parseSpec(text: string, name: string): Promise<unknown> {
  if (/^\s*\{/.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      // YAML may begin with a bracket too, and its parser says what is wrong, and where.
    }
  }
  if (text.length > MOST_YAML)
    throw new SpecError(
      `${name} is no JSON, and longer than ${MOST_YAML / 1024 / 1024} MiB, which is too long for YAML.`,
    );
  const { isAlias, parseDocument, visit } = await import("yaml");
  const document = parseDocument(text, { uniqueKeys: false, logLevel: "silent" });
  const [error] = document.errors;
  if (error !== undefined) throw new SpecError(`${name} is neither JSON nor YAML: ${error.message}`);
  let nodes = 0;
  let aliases = 0;
  visit(document, (_key, node) => {
    nodes++;
    if (isAlias(node)) aliases++;
  });
  if (nodes * aliases > MOST_LOOKUPS)
    throw new SpecError(`${name} has too many aliases of YAML for its length.`);
  try {
    return document.toJS({ maxAliasCount: 1_000 });
  } catch (thrown) {
    throw new SpecError(`${name} cannot be read: ${reasonOf(thrown)}`);
  }
}

/**
 * Throws for a value that is too deep or too large, or that contains itself. An alias of YAML is one object that stands in
 * several places, so each object is measured once, and counts wherever it stands.
 */
function checkExtent(root: object, name: string): void {
  const known = new Map<object, { readonly size: number; readonly height: number } | undefined>();
  const measure = (value: object, depth: number): { readonly size: number; readonly height: number } => {
    const before = known.get(value);
    if (before === undefined && known.has(value)) throw new SpecError(`${name} contains itself.`);
    if (depth + (before?.height ?? 0) > DEEPEST)
      throw new SpecError(`${name} nests values more than ${DEEPEST} levels deep.`);
    if (before !== undefined) return before;
    known.set(value, undefined);
    let size = 0;
    let height = 0;
    for (const member of Object.values(value)) {
      size++;
      if (typeof member !== "object" || member === null) continue;
      const inner = measure(member, depth + 1);
      size += inner.size;
      height = Math.max(height, inner.height + 1);
      if (size > MOST_VALUES)
        throw new SpecError(`${name} has more than ${MOST_VALUES.toLocaleString("en-US")} values.`);
    }
    known.set(value, { size, height });
    return { size, height };
  };
  measure(root, 0);
}

/** Replaces the text of every `$ref` in the value. */
function redirectReferences(root: object, redirect: (reference: string) => string): void {
  const waiting: object[] = [root];
  const seen = new Set<object>();
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (seen.has(value)) continue;
    seen.add(value);
    if (isRecord(value) && typeof value.$ref === "string") value.$ref = redirect(value.$ref);
    for (const member of Object.values(value))
      if (typeof member === "object" && member !== null) waiting.push(member);
  }
}
