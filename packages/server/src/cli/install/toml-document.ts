import { isDeepStrictEqual } from "node:util";
import type { ClientDocument } from "./client-document.ts";
import { applyEdits, lineEndOf, type TextEdit } from "./text-edit.ts";
import { assign, parseTomlStatements, TomlScalar, type TomlStatement } from "./toml-statements.ts";

type Table = Record<string, unknown>;

/**
 * One table, `[container.name]` with the tables below it, of a TOML file. Everything else stays as it is. Throws
 * `SyntaxError` for what cannot be read, and where the entry is written in another way than as a table.
 */
export function openTomlDocument(text: string, container: string, name: string): ClientDocument {
  const statements = parseTomlStatements(text);
  const { own, others } = divide(statements, container, name);
  const entry = own.length === 0 ? undefined : entryOf(own);

  return {
    entry,
    set(value) {
      const head = own.find(({ path }) => path.length === 2);
      if (head !== undefined) return checked(change(text, head, own, value), value);
      return checked([...removals(), append(text, container, name, value)], value);
    },
    remove: () => checked(removals(), undefined),
  };

  function removals(): TextEdit[] {
    return blocksOf(own).map((block) => removal(text, block));
  }

  /** Read again, the text must have what was wanted, and everything else as it was. */
  function checked(edits: TextEdit[], wanted: unknown): TextEdit[] {
    const now = divide(parseTomlStatements(applyEdits(text, edits)), container, name);
    const found = now.own.length === 0 ? undefined : entryOf(now.own);
    if (isDeepStrictEqual(found, wanted) && isDeepStrictEqual(contentOf(now.others), contentOf(others)))
      return edits;
    throw new SyntaxError("it is built in a way that cannot be changed with certainty");
  }
}

function divide(
  statements: readonly TomlStatement[],
  container: string,
  name: string,
): { readonly own: TomlStatement[]; readonly others: TomlStatement[] } {
  const own: TomlStatement[] = [];
  const others: TomlStatement[] = [];
  const heads = new Set<string>();
  let table: readonly string[] = [];
  for (const statement of statements) {
    const { kind, path } = statement;
    if (kind !== "pair") table = path;
    const isIn = path[0] === container && path[1] === name;
    const isHead = table[0] === container && table[1] === name;
    // A pair of the root, or of [container], may define the entry too; then a table would be a second one.
    const isElsewhere = path[0] === container && kind === "pair" && (table.length === 0 || (isIn && !isHead));
    if (isElsewhere || (path[0] === container && kind === "array" && (isIn || path.length === 1))) {
      throw new SyntaxError(`"${path.join(".")}" is not written as a table [${container}.${name}]`);
    }
    if (kind !== "pair" && isIn) {
      const head = JSON.stringify(path);
      if (heads.has(head)) throw new SyntaxError(`[${path.join(".")}] is there twice`);
      heads.add(head);
    }
    (isIn ? own : others).push(statement);
  }
  return { own, others };
}

function entryOf(own: readonly TomlStatement[]): Table {
  const entry: Table = {};
  for (const { kind, path, value } of own) {
    if (kind === "pair") assign(entry, path.slice(2), value);
    else if (path.length > 2 && !own.some((other) => other.kind === "pair" && startsWith(other.path, path))) {
      assign(entry, path.slice(2), {});
    }
  }
  return entry;
}

function startsWith(path: readonly string[], beginning: readonly string[]): boolean {
  return beginning.every((part, index) => path[index] === part);
}

function contentOf(statements: readonly TomlStatement[]): unknown {
  return statements.map(({ kind, path, value }) => ({ kind, path, value }));
}

function append(text: string, container: string, name: string, value: Table): TextEdit {
  const eol = lineEndOf(text);
  const isEmpty = text.trim() === "";
  const gap = isEmpty ? "" : text.endsWith("\n") ? eol : eol + eol;
  const start = isEmpty ? (text.startsWith("\uFEFF") ? 1 : 0) : text.length;
  const lines = [`[${container}.${name}]`, ...pairs(value)];
  return { start, end: text.length, text: `${gap}${lines.join(eol)}${eol}` };
}

/** What stays the same keeps its lines; the rest goes, and comes anew behind the table's head. */
function change(text: string, head: TomlStatement, own: readonly TomlStatement[], value: Table): TextEdit[] {
  const entry = entryOf(own);
  const isKept = (key: string) => key in value && isDeepStrictEqual(value[key], entry[key]);
  const gone = own.filter(({ path }) => path.length > 2 && !isKept(path[2] ?? ""));
  const added = Object.fromEntries(Object.entries(value).filter(([key]) => !isKept(key)));
  const eol = lineEndOf(text);
  const isLast = !text.slice(0, head.end).endsWith("\n");
  const lines = pairs(added).map((line) => (isLast ? eol + line : line + eol));
  return [
    ...gone.map(({ start, end }) => ({ start, end, text: "" })),
    { start: head.end, end: head.end, text: lines.join("") },
  ];
}

/** Tables that follow each other are one block. */
function blocksOf(own: readonly TomlStatement[]): { start: number; end: number }[] {
  const blocks: { start: number; end: number }[] = [];
  for (const { kind, start, end } of own) {
    const last = blocks.at(-1);
    if (kind !== "pair" || last === undefined) blocks.push({ start, end });
    else last.end = end;
  }
  return blocks;
}

/** With the blank line before it, unless that goes on dividing its neighbours. */
function removal(text: string, { start, end }: { start: number; end: number }): TextEdit {
  const blank = /(?:^|\n)([ \t]*\r?\n)$/.exec(text.slice(Math.max(0, start - 200), start))?.[1] ?? "";
  const isDivided = end >= text.length || /^[ \t]*\r?\n/.test(text.slice(end));
  return { start: isDivided ? start - blank.length : start, end, text: "" };
}

function pairs(table: Table): string[] {
  return Object.entries(table).map(([key, value]) => `${keyText(key)} = ${written(value)}`);
}

function written(value: unknown): string {
  if (value instanceof TomlScalar) return value.written;
  if (typeof value === "string") return text(value);
  if (Array.isArray(value)) return `[${value.map(written).join(", ")}]`;
  if (typeof value !== "object" || value === null) return String(value);
  const members = Object.entries(value).map(([key, member]) => `${keyText(key)} = ${written(member)}`);
  return members.length === 0 ? "{}" : `{ ${members.join(", ")} }`;
}

function keyText(key: string): string {
  return /^[\w-]+$/.test(key) ? key : text(key);
}

/** A string of JSON is a string of TOML, but for one character. */
function text(value: string): string {
  return JSON.stringify(value).replaceAll("\u007f", "\\u007f");
}
