import { issuePath, UnsafeValue } from "./issue.ts";
import { isRecord, type JsonSchemaObject, keysOf, listOf } from "./visit.ts";

/** Deeper than any real argument, and shallow enough for every validator's stack. */
const maximumDepth = 500;
/**
 * The most members of all objects and arrays of a value together; a larger value is an attack, or repeats a
 * shared part many times.
 */
const maximumSize = 1_000_000;

/**
 * The most keys in one JSON text from a caller. Only keys are limited, because they are looked at many times;
 * list items are not.
 */
const mostKeys = 100_000;
/** Shorter texts are parsed quickly, whatever they contain. */
const harmlessText = 64 * 1024;

/** From this many members, or characters of text, a value is too large to be remembered as a whole. */
const manyMembers = 1_000;
const manyCharacters = 100_000;

/** Counts what one walk has seen. Module state instead of an object per walk: this runs on every call. */
let seen = 0;
let characters = 0;

/** Whether the value that was copied or looked through last is too large for a history to keep. */
export function wasLarge(): boolean {
  return seen > manyMembers || characters > manyCharacters;
}

/**
 * A copy that shares no object or array with the value, without `__proto__` keys and `undefined` members.
 * Dates, Maps, Buffers and the like are left as they are. Throws `UnsafeValue`.
 */
export function copyPlain(value: unknown): unknown {
  beginWalk();
  if (typeof value !== "object" || value === null) return value;
  return copyMember(value, true, 0, value);
}

function beginWalk(): void {
  seen = 0;
  characters = 0;
}

function countParts(members: number, text: number): void {
  seen += members;
  characters += text;
  if (seen > maximumSize) throw tooLarge({});
}

/** Like `copyPlain`, for a part of the value. Goes on counting. */
function copyPart(value: unknown): unknown {
  if (typeof value === "string") characters += value.length;
  return typeof value === "object" && value !== null ? copyMember(value, true, 0, value) : value;
}

/**
 * The value itself when no plain object inside it has an own `__proto__` key, otherwise a copy without them.
 * Instances of classes are not entered: a validator may want them as they are. Throws `UnsafeValue`.
 */
export function withoutPrototypeKeys(value: unknown): unknown {
  beginWalk();
  if (typeof value !== "object" || value === null) return value;
  if (isHarmless(value, 0)) return value;
  beginWalk();
  return copyMember(value, false, 0, value);
}

/** Whether the value has no own `__proto__` key and is neither too deep nor too large. */
function isHarmless(value: object, depth: number): boolean {
  if (depth >= maximumDepth) return false;
  if (Array.isArray(value)) {
    seen += value.length;
    for (let index = 0; index < value.length && seen <= maximumSize; index++) {
      const member: unknown = value[index];
      if (typeof member === "string") characters += member.length;
      else if (typeof member === "object" && member !== null && !isHarmless(member, depth + 1)) return false;
    }
    return seen <= maximumSize;
  }
  // Reading `constructor` is faster than reading the prototype.
  if (value.constructor !== Object && !isPlainObject(value)) return true;
  for (const key in value) {
    if (key === "__proto__") return false;
    const member = (value as Record<string, unknown>)[key]; // Any object may be read by its own keys.
    if (typeof member === "string") characters += member.length;
    else if (typeof member === "object" && member !== null && !isHarmless(member, depth + 1)) return false;
    seen++;
  }
  return seen <= maximumSize;
}

/** Counts the members of a tree that `copyPlain` made, up to a limit. */
export function countMembers(value: unknown, limit: number): number {
  if (typeof value !== "object" || value === null) return 0;
  const members = Object.values(value);
  let count = members.length;
  for (const member of members) {
    if (count >= limit) return count;
    count += countMembers(member, limit - count);
  }
  return count;
}

/**
 * Says what makes a JSON text too large to parse, or undefined. Looks at the text alone, because parsing a few
 * megabytes of brackets or keys blocks the process for seconds. Must be called before parsing JSON from others.
 */
export function tooMuchJson(text: string, limit = mostKeys): string | undefined {
  if (text.length <= harmlessText) return undefined;
  let depth = 0;
  let keys = 0;
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case 0x22: // A text: on to its closing quote.
        index = endOfText(text, index + 1);
        break;
      case 0x3a: // A colon follows every key.
        if (++keys > limit) return `more than ${limit.toLocaleString("en-US")} keys`;
        break;
      case 0x5b:
      case 0x7b: // A list or an object begins.
        if (++depth > maximumDepth) return `more than ${maximumDepth} levels of nesting`;
        break;
      case 0x5d:
      case 0x7d:
        depth--;
    }
  }
  return undefined;
}

/** The position of the quote that closes a text. */
function endOfText(text: string, from: number): number {
  for (let index = from; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x22) return index;
    if (code === 0x5c) index++;
  }
  return text.length;
}

/** `flatten`: copy instances of classes as plain objects; otherwise keep them. */
function copyMember(value: object, flatten: boolean, depth: number, root: object): unknown {
  if (depth >= maximumDepth) throw unsafe(root, "levels of nesting", maximumDepth, "more than 500 levels");
  if (Array.isArray(value)) {
    seen += value.length;
    if (seen > maximumSize) throw tooLarge(root);
    const copy: unknown[] = value.slice();
    for (let index = 0; index < copy.length; index++) {
      const member = copy[index];
      if (typeof member === "string") characters += member.length;
      else if (typeof member === "object" && member !== null)
        copy[index] = copyMember(member, flatten, depth + 1, root);
    }
    return copy;
  }
  // Reading `constructor` is faster than reading the prototype.
  if (value.constructor !== Object && !isPlainObject(value)) {
    if (!flatten || Object.prototype.toString.call(value) !== "[object Object]") return value;
  }
  // A spread copies the whole shape at once, which is twice as fast as adding member by member.
  const copy: Record<string, unknown> = { ...value };
  let size = 0;
  for (const key in copy) {
    const member = copy[key];
    if (typeof member === "string") characters += member.length;
    if (member === undefined || key === "__proto__") delete copy[key];
    else if (typeof member === "object" && member !== null)
      copy[key] = copyMember(member, flatten, depth + 1, root);
    size++;
  }
  seen += size;
  if (seen > maximumSize) throw tooLarge(root);
  return copy;
}

/** Plain in any realm: made by `{}` or by `Object.create(null)`. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null;
}

function tooLarge(root: object): UnsafeValue {
  return unsafe(root, "members in all", maximumSize, "a larger value");
}

/**
 * Makes the error for a value that is too deep or too large. Looks for a circular reference only here,
 * because a circular value is endlessly deep.
 */
function unsafe(root: object, measure: string, limit: number, excess: string): UnsafeValue {
  const circle = pathOfCircle(root, [], new Set());
  const path = issuePath(circle ?? []);
  const [expected, received] =
    circle === undefined
      ? [`at most ${limit.toLocaleString("en-US")} ${measure}`, excess]
      : ["a value without circular references", "a circular reference"];
  const where = path === "" ? "" : ` at \`${path}\``;
  return new UnsafeValue({
    path,
    expected,
    received,
    message: `Expected ${expected}, got ${received}${where}.`,
  });
}

/**
 * The path to a container that is its own ancestor, if there is one. `cleared`: containers that lead to none.
 */
function pathOfCircle(value: object, chain: object[], cleared: Set<object>): unknown[] | undefined {
  if (chain.includes(value)) return [];
  if (cleared.has(value) || chain.length > maximumDepth) return undefined;
  for (const [key, member] of Object.entries(value)) {
    if (typeof member !== "object" || member === null) continue;
    const path = pathOfCircle(member, [...chain, value], cleared);
    if (path !== undefined) return [Array.isArray(value) ? Number(key) : key, ...path];
  }
  cleared.add(value);
  return undefined;
}

/** A change to one member of a value, at any depth. */
export interface Edit {
  readonly path: readonly unknown[];
  /** `undefined` removes the member. */
  readonly value: unknown;
}

/** Copies a value with some members changed. Every path must lead through plain objects and arrays. */
export function editCopy(value: unknown, edits: readonly Edit[]): unknown {
  beginWalk();
  const root: Record<string, unknown> = { value };
  if (typeof value === "object" && value !== null) root.value = copyMember(value, false, 0, value);
  for (const { path, value: member } of edits) {
    const keys = ["value", ...path.map(String)];
    const last = keys.pop()!;
    let container = root;
    for (const key of keys) container = container[key] as Record<string, unknown>; // Arrays are written by key too.
    if (member === undefined) delete container[last];
    else container[last] = member;
  }
  return root.value;
}

/**
 * Copies a value whose own keys are all listed by the schema. Returns undefined for any other value, also one that is
 * too deep or too large: `copyPlain` then copies it or says what is wrong.
 */
export type Copier = (value: unknown) => unknown;

/** Larger schemas get no copier; generated code would only fill memory. */
const deepest = 8;
const mostNodes = 200;

/**
 * Generates a function that copies values of the schema's shape: 5 to 10 times as fast as the general copy, because the
 * engine knows the keys (nested arguments of the benchmark: 840 → 130 ns). It validates nothing. A part that the schema
 * does not spell out, or that does not have the keys that the schema lists, is copied by `copyOther`. Undefined when there
 * is nothing to gain, or when code cannot be generated.
 */
export function compileCopier(schema: JsonSchemaObject): Copier | undefined {
  return compileWalk(schema, { functions: [], nodes: 0, copies: true }, copyPart);
}

function compileWalk(schema: JsonSchemaObject, writer: Writer, copyOther: Copier): Copier | undefined {
  if (!isRecord(schema.properties)) return undefined;
  const name = writeObject(schema.properties, listOf(schema.required), writer, 0);
  if (name === undefined) return undefined;
  try {
    const source = `"use strict";\n${writer.functions.join("\n")}\nreturn ${name};`;
    // The source is generated here; keys are quoted.
    const copy = new Function("copyPart", "countParts", source)(copyOther, countParts) as Copier;
    return (value) => {
      seen = 0;
      characters = 0;
      try {
        return copy(value);
      } catch {
        return undefined;
      }
    };
  } catch {
    return undefined;
  }
}

/**
 * Generates a function that looks through values: it returns the value if all own keys are listed, so that
 * `withoutPrototypeKeys` would return the value itself, and undefined otherwise.
 */
export function compileLooker(schema: JsonSchemaObject): Copier | undefined {
  return compileWalk(schema, { functions: [], nodes: 0, copies: false }, (value) => {
    if (typeof value === "object" && value !== null && !isHarmless(value, 0)) throw tooLarge({});
    return value;
  });
}

interface Writer {
  readonly functions: string[];
  nodes: number;
  /** Whether the functions copy values, or only look through them. */
  readonly copies: boolean;
}

/** Writes the function for one part of the schema and returns its name: `copyPart` for one that is not spelled out. */
function writePart(schema: unknown, writer: Writer, depth: number): string {
  if (!isRecord(schema) || depth > deepest || writer.nodes >= mostNodes) return "copyPart";
  writer.nodes++;
  const { properties, items, required } = schema;
  const name = isRecord(properties) ? writeObject(properties, listOf(required), writer, depth) : undefined;
  return name ?? (isRecord(items) ? writeArray(items, writer, depth) : "copyPart");
}

function writeObject(
  properties: Record<string, unknown>,
  required: readonly unknown[],
  writer: Writer,
  depth: number,
): string | undefined {
  const keys = keysOf(properties);
  // Inherited names would be found even when the value lacks them.
  if (keys.length === 0 || keys.some((key) => key in Object.prototype)) return undefined;
  const members = keys.map((key, index) => ({
    key: JSON.stringify(key),
    local: `m${index}`,
    copy: writeCopy(writePart(properties[key], writer, depth + 1), `m${index}`),
    isRequired: required.includes(key),
  }));
  const { copies } = writer;
  const always = members.filter((member) => member.isRequired);
  const sometimes = members.filter((member) => !member.isRequired);
  const isMissing = always.map(({ local }) => ` || ${local} === undefined`).join("");
  const otherwise = depth === 0 ? "undefined" : "copyPart(value)";
  const name = `copy${writer.functions.length}`;
  // The members are read before the prototype: from then on the engine knows the shape, and reading the prototype and
  // counting the keys cost nearly nothing.
  writer.functions.push(`function ${name}(value) {
  if (typeof value !== "object" || value === null) return ${otherwise};
  const ${members.map(({ key, local }) => `${local} = value[${key}]`).join(", ")};
  if (Object.getPrototypeOf(value) !== Object.prototype${isMissing}) return ${otherwise};
  let text = 0;
  const copy = ${copies ? `{ ${always.map(({ key, copy }) => `${key}: ${copy}`).join(", ")} }` : "value"};
  ${copies ? "" : always.map(({ copy }) => `${copy};`).join("\n  ")}
  let expected = ${always.length};
  ${sometimes.map(({ key, local, copy }) => `if (${local} !== undefined) { ${copies ? `copy[${key}] = ` : ""}${copy}; expected++; }`).join("\n  ")}
  let found = 0;
  for (const key in value) found++;
  if (found !== expected) return ${otherwise};
  countParts(found, text);
  return copy;
}`);
  return name;
}

/**
 * Writes the copy of one member. Texts, numbers and the like are taken over in place, without a call (nested arguments of
 * the benchmark: 130 → 85 ns); `text` counts the characters.
 */
function writeCopy(copy: string, member: string): string {
  return `typeof ${member} === "string" ? (text += ${member}.length, ${member}) : typeof ${member} === "object" ? ${copy}(${member}) : ${member}`;
}

function writeArray(items: Record<string, unknown>, writer: Writer, depth: number): string {
  const copy = writePart(items, writer, depth + 1);
  const name = `copy${writer.functions.length}`;
  writer.functions.push(`function ${name}(value) {
  if (!Array.isArray(value)) return copyPart(value);
  countParts(value.length, 0);
  let text = 0;
  const copy = ${writer.copies ? "value.slice()" : "value"};
  for (let index = 0; index < copy.length; index++) {
    const member = copy[index], copied = ${writeCopy(copy, "member")};
    ${writer.copies ? "if (copied !== member) copy[index] = copied;" : ""}
  }
  countParts(0, text);
  return copy;
}`);
  return name;
}
