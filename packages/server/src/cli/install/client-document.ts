import { isDeepStrictEqual } from "node:util";
import { createScanner, type Node, stripComments } from "jsonc-parser";
import { type AST, getStaticTOMLValue, parseTOML } from "toml-eslint-parser";
import { isRecord, parseJsonc, parseJsoncTree } from "../../helpers/index.ts";

/** Replaces the text from `start` up to `end`. */
export interface TextEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

type Members = Readonly<Record<string, unknown>>;

/** A client's configuration file, reduced to the rack's entry in it. */
export interface ClientDocument {
  /** The current entry; undefined when there is none. */
  readonly entry: unknown;
  /** Edits that write the entry. Throws `SyntaxError` when they might change anything else. */
  set(entry: Members): TextEdit[];
  /** Edits that remove the entry. Throws like `set`. */
  remove(): TextEdit[];
}

const uncertain = "it is built in a way that cannot be changed with certainty";

/**
 * One entry, `container.name`, of a JSON file with comments. Everything else keeps its comments, order and form; the
 * edits of the JSON library would remove comments next to a removed member. Throws `SyntaxError` for a file that cannot
 * be read, or whose structure is ambiguous.
 */
export function openJsonDocument(text: string, container: string, name: string): ClientDocument {
  const isEmpty = stripComments(text).trim() === "";
  const content = isEmpty ? {} : parseJsonc(text);
  if (!isRecord(content)) throw new SyntaxError("it holds no object");
  const root = isEmpty ? undefined : parseJsoncTree(text);
  const outer = onlyMember(text, root, container);
  const servers = outer === undefined ? {} : content[container];
  if (!isRecord(servers)) throw new SyntaxError(`"${container}" is no object`);
  const inner = onlyMember(text, outer?.value, name);

  return {
    entry: inner === undefined ? undefined : servers[name],
    set: (value) => checked(edit(value), { ...content, [container]: { ...servers, [name]: value } }),
    remove() {
      if (outer === undefined || inner === undefined) return [];
      const { [name]: _, ...others } = servers;
      const members = membersOf(text, outer.value);
      return checked(removeMember(text, members, inner), { ...content, [container]: others });
    },
  };

  function edit(value: unknown): TextEdit[] {
    if (root === undefined) return [newDocument(text, { [container]: { [name]: value } })];
    if (outer === undefined) return addMember(text, root, container, { [name]: value });
    if (inner === undefined) return addMember(text, outer.value, name, value);
    const { offset, length } = inner.value;
    const put = written(text, value, ownLineIndent(text, inner.start));
    return [{ start: offset, end: offset + length, text: put }];
  }

  /** Parses the edited text and throws unless it holds exactly the expected value. */
  function checked(edits: TextEdit[], expected: unknown): TextEdit[] {
    if (isDeepStrictEqual(parseJsonc(applyEdits(text, edits)), expected)) return edits;
    throw new SyntaxError(uncertain);
  }
}

interface Member {
  readonly key: string;
  readonly start: number;
  readonly value: Node;
  readonly end: number;
  readonly comma: number | undefined;
}

function membersOf(text: string, object: Node | undefined): Member[] {
  const properties = object?.type === "object" ? (object.children ?? []) : [];
  const scanner = createScanner(text, true);
  return properties.flatMap(({ children: [key, value] = [] }) => {
    if (key === undefined || value === undefined) return [];
    const end = value.offset + value.length;
    scanner.setPosition(end);
    scanner.scan();
    const next = scanner.getTokenOffset();
    return {
      key: String(key.value),
      start: key.offset,
      value,
      end,
      comma: text[next] === "," ? next : undefined,
    };
  });
}

/** Throws when the key is there twice, because programs differ in which of the two they read. */
function onlyMember(text: string, object: Node | undefined, key: string): Member | undefined {
  const found = membersOf(text, object).filter((member) => member.key === key);
  if (found.length > 1) throw new SyntaxError(`"${key}" is there ${found.length} times`);
  return found[0];
}

function newDocument(text: string, value: Members): TextEdit {
  const eol = lineEndOf(text);
  const before = text.trimEnd();
  const gap = before === "" || before === "\uFEFF" ? "" : eol;
  const start = text.startsWith("\uFEFF") ? Math.max(1, before.length) : before.length;
  return { start, end: text.length, text: `${gap}${written(text, value, "")}${eol}` };
}

function addMember(text: string, object: Node, key: string, value: unknown): TextEdit[] {
  const eol = lineEndOf(text);
  const closing = object.offset + object.length - 1;
  /** Offset after the last member or comment in the object. */
  const foot = object.offset + 1 + text.slice(object.offset + 1, closing).trimEnd().length;
  const last = membersOf(text, object).at(-1);
  if (last === undefined) {
    const outer = lineIndent(text, object.offset);
    const indent = outer + indentUnit(text);
    const member = `${eol}${indent}${JSON.stringify(key)}: ${written(text, value, indent)}`;
    return [{ start: foot, end: closing, text: `${member}${eol}${outer}` }];
  }
  const indent = ownLineIndent(text, last.start);
  const member = `${JSON.stringify(key)}: ${written(text, value, indent)}`;
  if (indent === undefined) return [insertion(last.end, `, ${member}`)];
  // A comment after the last member stays on that member's line.
  if (last.comma !== undefined) return [insertion(foot, `${eol}${indent}${member},`)];
  const line = `${eol}${indent}${member}`;
  if (foot === last.end) return [insertion(foot, `,${line}`)];
  return [insertion(last.end, ","), insertion(foot, line)];
}

function removeMember(text: string, members: readonly Member[], member: Member): TextEdit[] {
  const index = members.findIndex(({ start }) => start === member.start);
  const comma = member.comma ?? members[index - 1]?.comma;
  // The member's comma is removed with it, unless a comment is between the two.
  const isApart = comma === undefined || comma < member.start || text.slice(member.end, comma).trim() !== "";
  const own = lineOf(text, member, isApart ? member.end : comma + 1);
  return isApart && comma !== undefined ? [{ start: comma, end: comma + 1, text: "" }, own] : [own];
}

/** The edit that removes a member up to `end`, with its whole line if nothing else is on it. */
function lineOf(text: string, member: Member, end: number): TextEdit {
  const rest = /^[ \t]*/.exec(text.slice(end))?.[0] ?? "";
  const indent = /[ \t]*$/.exec(text.slice(lineStart(text, member.start), member.start))?.[0] ?? "";
  const start = member.start - indent.length;
  if (text[start - 1] !== "\n") return { start, end, text: "" };
  // A comment after the member stays, and so does the line.
  if (!/^\r?\n/.test(text.slice(end + rest.length)))
    return { start: member.start, end: end + rest.length, text: "" };
  return { start: start - (text[start - 2] === "\r" ? 2 : 1), end, text: "" };
}

function insertion(at: number, text: string): TextEdit {
  return { start: at, end: at, text };
}

/** The value as JSON: over several lines when its key begins a line with this indent, otherwise on one line. */
function written(text: string, value: unknown, indent: string | undefined): string {
  if (indent === undefined) return JSON.stringify(value);
  return JSON.stringify(value, undefined, indentUnit(text)).replaceAll("\n", lineEndOf(text) + indent);
}

function lineStart(text: string, at: number): number {
  return text.lastIndexOf("\n", at - 1) + 1;
}

/** The indent before the offset; undefined when other text is before it on the line. */
function ownLineIndent(text: string, at: number): string | undefined {
  const before = text.slice(lineStart(text, at), at);
  return /^[ \t]*$/.test(before) ? before : undefined;
}

function lineIndent(text: string, at: number): string {
  return /^[ \t]*/.exec(text.slice(lineStart(text, at)))?.[0] ?? "";
}

/** One step of indentation, taken from the first indented line. */
function indentUnit(text: string): string {
  return /^([ \t]+)["\]}]/m.exec(text)?.[1] ?? "  ";
}

/** The line end that most lines have. */
function lineEndOf(text: string): string {
  const all = text.split("\n").length - 1;
  return text.split("\r\n").length - 1 > all / 2 ? "\r\n" : "\n";
}

/** A table header or a key-value pair in TOML, with its whole lines. */
interface Statement {
  /** Full path from the root; for a pair, its table and its key. */
  readonly path: readonly string[];
  readonly start: number;
  /** Offset after the line end. */
  readonly end: number;
  readonly isHead: boolean;
}

/**
 * One table, `[container.name]`, with its subtables, of a TOML file. Everything else stays unchanged. Throws
 * `SyntaxError` for a file that cannot be read, or when the entry is not written as a table.
 */
export function openTomlDocument(text: string, container: string, name: string): ClientDocument {
  const tree = parseToml(text);
  const own = ownStatements(text, tree, container, name);
  const content = contentOf(tree);
  const servers = content[container];
  const entry = own.length > 0 && isRecord(servers) ? servers[name] : undefined;

  return {
    entry,
    set(value) {
      const head = own.find(({ path }) => path.length === 2);
      if (head === undefined) return checked([...removals(), append(text, container, name, value)], value);
      return checked(change(text, head, own, isRecord(entry) ? entry : {}, value), value);
    },
    remove: () => checked(removals(), undefined),
  };

  function removals(): TextEdit[] {
    return blocksOf(own).map((block) => removal(text, block));
  }

  /**
   * The values of a file. A missing container counts as empty, so that a file without it equals one with an
   * empty container.
   */
  function contentOf(read: AST.TOMLProgram): Members {
    const values = getStaticTOMLValue(read);
    return { ...values, [container]: values[container] ?? {} };
  }

  /** Parses the edited text and throws unless it has the wanted entry and everything else is unchanged. */
  function checked(edits: TextEdit[], wanted: unknown): TextEdit[] {
    const others = Object.entries(isRecord(servers) ? servers : {}).filter(([key]) => key !== name);
    const entries = wanted === undefined ? others : [...others, [name, wanted]];
    const expected = { ...content, [container]: Object.fromEntries(entries) };
    if (isDeepStrictEqual(contentOf(parseToml(applyEdits(text, edits))), expected)) return edits;
    throw new SyntaxError(uncertain);
  }
}

function parseToml(text: string): AST.TOMLProgram {
  // A byte order mark is not TOML. A space instead of it keeps all offsets.
  const plain = text.replace(/^\uFEFF/, " ");
  try {
    return parseTOML(plain);
  } catch (thrown) {
    // The library's errors only add a line and an offset to `Error`.
    const { message, lineNumber, index } = thrown as Error & { lineNumber?: number; index?: number };
    if (lineNumber === undefined) throw thrown;
    const key = /^["']?([\w-]+)/.exec(plain.slice(index))?.[1] ?? "";
    if (/multiple times/.test(message)) throw new SyntaxError(`line ${lineNumber}: "${key}" is there twice`);
    throw new SyntaxError(`line ${lineNumber}: this is no TOML (${message.toLowerCase()})`);
  }
}

function ownStatements(text: string, tree: AST.TOMLProgram, container: string, name: string): Statement[] {
  const own: Statement[] = [];
  const addStatement = (path: readonly string[], range: AST.Range, table: readonly string[] | undefined) => {
    const isIn = path[0] === container && path[1] === name;
    // A pair of the root or of [container] may also define the entry; a table would then be a duplicate.
    const isElsewhere =
      table !== undefined && path[0] === container && (table.length === 0 || (isIn && table[1] !== name));
    if (isElsewhere) throw notTable(path);
    if (!isIn) return;
    const end = text.indexOf("\n", range[1]) + 1 || text.length;
    own.push({ path, start: lineStart(text, range[0]), end, isHead: table === undefined });
  };
  const notTable = (path: readonly string[]) =>
    new SyntaxError(`"${path.join(".")}" is not written as a table [${container}.${name}]`);
  for (const node of tree.body[0].body) {
    const path = keysOf(node.key);
    if (node.type === "TOMLKeyValue") {
      addStatement(path, node.range, []);
      continue;
    }
    const isList = node.kind === "array" && path[0] === container;
    if (isList && (path.length === 1 || path[1] === name)) throw notTable(path);
    addStatement(path, [node.range[0], node.key.range[1]], undefined);
    for (const pair of node.body) addStatement([...path, ...keysOf(pair.key)], pair.range, path);
  }
  return own;
}

function keysOf({ keys }: AST.TOMLKey): string[] {
  return keys.map((key) => (key.type === "TOMLBare" ? key.name : key.value));
}

function append(text: string, container: string, name: string, value: Members): TextEdit {
  const eol = lineEndOf(text);
  const isEmpty = text.trim() === "";
  const gap = isEmpty ? "" : text.endsWith("\n") ? eol : eol + eol;
  const start = isEmpty ? (text.startsWith("\uFEFF") ? 1 : 0) : text.length;
  const lines = [`[${container}.${name}]`, ...tomlPairs(value)];
  return { start, end: text.length, text: `${gap}${lines.join(eol)}${eol}` };
}

/** Unchanged keys keep their lines. The lines of all others are removed, and new ones follow the table header. */
function change(
  text: string,
  head: Statement,
  own: readonly Statement[],
  entry: Members,
  value: Members,
): TextEdit[] {
  const isKept = (key: string) => key in value && isDeepStrictEqual(value[key], entry[key]);
  const gone = own.filter(({ path }) => path.length > 2 && !isKept(path[2] ?? ""));
  const added = Object.fromEntries(Object.entries(value).filter(([key]) => !isKept(key)));
  const eol = lineEndOf(text);
  const isLast = !text.slice(0, head.end).endsWith("\n");
  const lines = tomlPairs(added).map((line) => (isLast ? eol + line : line + eol));
  return [
    ...gone.map(({ start, end }) => ({ start, end, text: "" })),
    { start: head.end, end: head.end, text: lines.join("") },
  ];
}

/** Joins adjacent tables into one block. */
function blocksOf(own: readonly Statement[]): { start: number; end: number }[] {
  const blocks: { start: number; end: number }[] = [];
  for (const { isHead, start, end } of own) {
    const last = blocks.at(-1);
    if (isHead || last === undefined) blocks.push({ start, end });
    else last.end = end;
  }
  return blocks;
}

/** Removes the block, and the blank line before it unless that line still separates the tables around the block. */
function removal(text: string, { start, end }: { start: number; end: number }): TextEdit {
  const blank = /(?:^|\n)([ \t]*\r?\n)$/.exec(text.slice(Math.max(0, start - 200), start))?.[1] ?? "";
  const isDivided = end >= text.length || /^[ \t]*\r?\n/.test(text.slice(end));
  return { start: isDivided ? start - blank.length : start, end, text: "" };
}

function tomlPairs(table: Members): string[] {
  return Object.entries(table).map(([key, value]) => {
    const name = /^[\w-]+$/.test(key) ? key : tomlText(key);
    return `${name} = ${tomlValue(value)}`;
  });
}

function tomlValue(value: unknown): string {
  if (typeof value === "string") return tomlText(value);
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(", ")}]`;
  if (!isRecord(value)) return String(value);
  const members = tomlPairs(value);
  return members.length === 0 ? "{}" : `{ ${members.join(", ")} }`;
}

/** JSON and TOML write strings alike, except that TOML escapes the character U+007F. */
function tomlText(value: string): string {
  return JSON.stringify(value).replaceAll("\u007f", "\\u007f");
}

/** The edits must not overlap. */
export function applyEdits(text: string, edits: readonly TextEdit[]): string {
  const lastFirst = edits.toSorted((one, other) => other.start - one.start);
  return lastFirst.reduce(
    (edited, { start, end, text: put }) => edited.slice(0, start) + put + edited.slice(end),
    text,
  );
}

/**
 * Lists the lines that the edits write, and how many lines they remove. Other text of the file is not shown, because it
 * may hold the user's secrets. `secrets` are masked.
 */
export function describeEdits(
  text: string,
  edits: readonly TextEdit[],
  secrets: readonly string[] = [],
): string[] {
  // JSON and TOML quote our values in the same way, so a secret is found in its JSON form.
  const masked = (put: string) =>
    secrets.reduce((rest, secret) => rest.replaceAll(JSON.stringify(secret), '"…"'), put);
  // A line that holds only a neighbour's comma is not listed as a change.
  const linesOf = (part: string) => part.split(/\r?\n/).filter((line) => !/^[\s,]*$/.test(line));
  return edits
    .toSorted((one, other) => one.start - other.start)
    .flatMap(({ start, end, text: put }) => {
      const gone = text.slice(start, end);
      const count = linesOf(gone).length;
      const removed = count === 0 ? [] : [`- (${count} ${count === 1 ? "line" : "lines"})`];
      const added = linesOf(masked(put)).map((line) => `+ ${line}`);
      if (count + added.length === 0) return [];
      // Text that begins with a line end belongs to the next line.
      const at = start + (/^\r?\n/.exec(gone || put)?.[0].length ?? 0);
      const line = text.slice(0, Math.min(at, text.length)).split("\n").length;
      return [`@@ line ${line} @@`, ...removed, ...added];
    });
}
