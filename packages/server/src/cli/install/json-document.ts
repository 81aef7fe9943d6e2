import { isDeepStrictEqual } from "node:util";
import { parseJsonc } from "../../helpers/jsonc.ts";
import { isRecord } from "../../helpers/values.ts";
import type { ClientDocument } from "./client-document.ts";
import { type JsonMember, type JsonNode, parseJsonTree } from "./json-tree.ts";
import { applyEdits, lineEndOf, type TextEdit } from "./text-edit.ts";

type Members = Record<string, unknown>;

/**
 * One entry, `container.name`, of a file in JSON with comments. Comments, order and form of everything else stay as they
 * are. Throws `SyntaxError` for what cannot be read, or is built so that it is not certain what belongs where.
 */
export function openJsonDocument(text: string, container: string, name: string): ClientDocument {
  const root = parseJsonTree(text);
  const content = root === undefined ? {} : parseJsonc(text);
  if (!isRecord(content)) throw new SyntaxError("it holds no object");
  const outer = onlyMember(root, container);
  if (outer !== undefined && !isRecord(content[container]))
    throw new SyntaxError(`"${container}" is no object`);
  const inner = onlyMember(outer?.value, name);
  const servers = content[container] as Members | undefined;
  const entry = inner === undefined ? undefined : servers?.[name];

  return {
    entry,
    set(value) {
      const edits = edit(value);
      const expected = { ...content, [container]: { ...servers, [name]: value } };
      return checked(text, edits, expected);
    },
    remove() {
      if (outer === undefined || inner === undefined) return [];
      const { [name]: _, ...others } = servers ?? {};
      return checked(text, removeMember(text, outer.value, inner), { ...content, [container]: others });
    },
  };

  function edit(value: unknown): TextEdit[] {
    if (root === undefined) return [newDocument(text, { [container]: { [name]: value } })];
    if (outer === undefined) return addMember(text, root, container, { [name]: value });
    if (inner === undefined) return addMember(text, outer.value, name, value);
    const { start, end } = inner.value;
    return [{ start, end, text: written(text, value, ownLineIndent(text, inner.start)) }];
  }
}

/** With two of one name, programs differ in which they take. */
function onlyMember(node: JsonNode | undefined, key: string): JsonMember | undefined {
  const found = node?.members?.filter((member) => member.key === key) ?? [];
  if (found.length > 1) throw new SyntaxError(`"${key}" is there ${found.length} times`);
  return found[0];
}

/** Another reader must find in the edited text exactly what was wanted. */
function checked(text: string, edits: TextEdit[], expected: unknown): TextEdit[] {
  if (isDeepStrictEqual(parseJsonc(applyEdits(text, edits)), expected)) return edits;
  throw new SyntaxError("it is built in a way that cannot be changed with certainty");
}

function newDocument(text: string, value: Members): TextEdit {
  const eol = lineEndOf(text);
  const before = text.trimEnd();
  const gap = before === "" || before === "\uFEFF" ? "" : eol;
  const start = text.startsWith("\uFEFF") ? Math.max(1, before.length) : before.length;
  return { start, end: text.length, text: `${gap}${written(text, value, "")}${eol}` };
}

function addMember(text: string, object: JsonNode, key: string, value: unknown): TextEdit[] {
  const eol = lineEndOf(text);
  const last = object.members?.at(-1);
  /** Behind the last thing that stands in the object, be it a comment. */
  const inside = text.slice(object.start + 1, object.end - 1);
  const foot = object.start + 1 + inside.trimEnd().length;
  if (last === undefined) {
    const outer = lineIndent(text, object.start);
    const indent = outer + indentUnit(text);
    const member = `${eol}${indent}${JSON.stringify(key)}: ${written(text, value, indent)}`;
    return [{ start: foot, end: object.end - 1, text: `${member}${eol}${outer}` }];
  }
  const indent = ownLineIndent(text, last.start);
  const member = `${JSON.stringify(key)}: ${written(text, value, indent)}`;
  if (indent === undefined) return [insertion(last.value.end, `, ${member}`)];
  // What is written behind the last member, on its line, goes on belonging to it.
  if (last.comma !== undefined) return [insertion(foot, `${eol}${indent}${member},`)];
  const line = `${eol}${indent}${member}`;
  if (foot === last.value.end) return [insertion(foot, `,${line}`)];
  return [insertion(last.value.end, ","), insertion(foot, line)];
}

function removeMember(text: string, object: JsonNode, member: JsonMember): TextEdit[] {
  const members = object.members ?? [];
  const comma = member.comma ?? members[members.indexOf(member) - 1]?.comma;
  // Its own comma goes with it, unless a comment stands between the two.
  const isApart =
    comma === undefined || text.slice(member.value.end, comma).trim() !== "" || comma < member.start;
  const own = placeOf(text, member, isApart ? member.value.end : comma + 1);
  return isApart && comma !== undefined ? [{ start: comma, end: comma + 1, text: "" }, own] : [own];
}

/** What is removed with a member that ends there: its line, where it has one to itself. */
function placeOf(text: string, member: JsonMember, end: number): TextEdit {
  const rest = /^[ \t]*/.exec(text.slice(end))?.[0] ?? "";
  const indent =
    /[ \t]*$/.exec(text.slice(text.lastIndexOf("\n", member.start - 1) + 1, member.start))?.[0] ?? "";
  const start = member.start - indent.length;
  if (text[start - 1] !== "\n") return { start, end, text: "" };
  // A comment that follows on the line stays, and so does the line.
  if (!/^\r?\n/.test(text.slice(end + rest.length)))
    return { start: member.start, end: end + rest.length, text: "" };
  return { start: start - (text[start - 2] === "\r" ? 2 : 1), end, text: "" };
}

function insertion(at: number, text: string): TextEdit {
  return { start: at, end: at, text };
}

/** Over several lines where it begins at a line of its own with this indent; otherwise on one. */
function written(text: string, value: unknown, indent: string | undefined): string {
  if (indent === undefined) return JSON.stringify(value);
  return JSON.stringify(value, undefined, indentUnit(text)).replaceAll("\n", lineEndOf(text) + indent);
}

/** Undefined when something else stands before it on its line. */
function ownLineIndent(text: string, at: number): string | undefined {
  const before = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return /^[ \t]*$/.test(before) ? before : undefined;
}

function lineIndent(text: string, at: number): string {
  return /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", at - 1) + 1))?.[0] ?? "";
}

/** As the first line that is indented has it. */
function indentUnit(text: string): string {
  return /^([ \t]+)["\]}]/m.exec(text)?.[1] ?? "  ";
}
