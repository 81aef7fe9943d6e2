import { compileSchema, type JsonSchemaObject } from "@toolrack/core";
import type { Document, LineCounter, Node } from "yaml";

/** A YAML file that people wrote is wrong. The message begins with `FILE:LINE`. */
export class YamlFileError extends Error {
  override readonly name = "YamlFileError";
  readonly file: string;
  readonly line: number;
  readonly reason: string;

  constructor(file: string, line: number, reason: string) {
    super(`${file}:${line}: ${reason}`);
    this.file = file;
    this.line = line;
    this.reason = reason;
  }
}

export interface YamlFile<Value = unknown> {
  /** Plain JSON. */
  readonly value: Value;
  /** The line of the value at a path such as `cases[0].prompt`; of what is around it, if there is none. */
  lineOf(path: string): number;
}

/** Characters: reading YAML takes about half a second for each million. */
const LONGEST = 1024 * 1024;
/** A record of a call is 64 levels deep at most, and a test of it has some more around it. */
const DEEPEST = 80;

/**
 * Reads a YAML file that holds plain JSON values and fits the schema: saved calls, evals. Anchors, aliases, tags, several
 * documents and depths without end are refused, because no such file needs them. Throws `YamlFileError`.
 */
export async function readYaml<Value>(
  text: string,
  file: string,
  schema: JsonSchemaObject,
): Promise<YamlFile<Value>> {
  const read = await parseYaml(text, file);
  const outcome = await compileSchema(schema).validate(read.value);
  if (!outcome.ok) {
    const [first] = outcome.issues;
    throw new YamlFileError(file, read.lineOf(first?.path ?? ""), first?.message ?? "It does not fit.");
  }
  return { ...read, value: outcome.value as Value }; // The schema has checked it.
}

/** The same for a file whose values the caller checks itself. */
export async function parseYaml(text: string, file: string, longest = LONGEST): Promise<YamlFile> {
  if (text.length > longest)
    throw new YamlFileError(
      file,
      1,
      `It is longer than ${longest / 1024} KiB. Divide it into several files.`,
    );
  // Imported late: most starts of the program read no YAML.
  const yaml = await import("yaml");
  refuseTokens(new yaml.Lexer().lex(text), yaml.CST.tokenType, file);
  const lines = new yaml.LineCounter();
  const documents = yaml.parseAllDocuments(text, {
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
  });
  const [document, second] = Array.isArray(documents) ? documents : [];
  const lineAt = (offset: number | undefined) => Math.max(1, lines.linePos(offset ?? 0).line);
  if (document === undefined) throw new YamlFileError(file, 1, "It is empty.");
  const [error] = document.errors;
  if (error !== undefined)
    throw new YamlFileError(file, lineAt(error.pos[0]), `This is no YAML: ${error.message}`);
  if (second !== undefined)
    throw new YamlFileError(
      file,
      lineAt(second.range[0]),
      "A second document begins here. Write one for each file.",
    );
  yaml.visit(document, (key, node, path) => {
    const refuse = (reason: string) => {
      throw new YamlFileError(file, lineAt(yaml.isNode(node) ? node.range?.[0] : 0), reason);
    };
    if (path.length > 2 * DEEPEST) refuse(tooDeep);
    if (yaml.isScalar(node) && key === "key" && node.value === "__proto__")
      refuse("No value may have the key __proto__.");
    if (!yaml.isScalar(node) || typeof node.value !== "number") return;
    const { value, source = String(value) } = node;
    // Of a whole number with very many digits, some would be changed without a word.
    const isChanged = /^[-+]?\d+$/.test(source) && !Number.isSafeInteger(value) && source !== String(value);
    if (isChanged || !Number.isFinite(value))
      refuse(`${source} is no number that JSON keeps. Write it in quotes.`);
  });
  return { value: document.toJS(), lineOf: (path) => lineOf(document, path, lines) };
}

const tooDeep = `Values are nested more than ${DEEPEST} levels deep.`;

const refused: Readonly<Record<string, string>> = {
  anchor: "Anchors are not read here. Write the value where it is needed.",
  alias: "Aliases are not read here. Write the value where it is needed.",
  tag: "Tags are not read here. Write the value without one.",
};

/** Looks at the words of the file before it is parsed: a parser may need endless time or depth for what is refused here. */
function refuseTokens(
  tokens: Iterable<string>,
  typeOf: (token: string) => string | null,
  file: string,
): void {
  let line = 1;
  let depth = 0;
  /** Marks on one line: `- - - a` nests three lists. */
  let marks = 0;
  let isText = false;
  for (const token of tokens) {
    const type: string = isText ? "text" : (typeOf(token) ?? "");
    isText = type === "scalar";
    const reason = refused[type];
    if (reason !== undefined) throw new YamlFileError(file, line, reason);
    if (type === "flow-seq-start" || type === "flow-map-start") depth++;
    if (type === "flow-seq-end" || type === "flow-map-end") depth--;
    if (type === "seq-item-ind" || type === "explicit-key-ind") marks++;
    if (depth > DEEPEST || marks > DEEPEST) throw new YamlFileError(file, line, tooDeep);
    const ended = token.split("\n").length - 1;
    if (ended > 0) marks = 0;
    line += ended;
  }
}

const steps = /\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([^.[\]]+)/g;

function lineOf(document: Document, path: string, lines: LineCounter): number {
  const keys = [...path.matchAll(steps)].map(([, index, quoted, name]) =>
    index !== undefined ? Number(index) : quoted === undefined ? name : JSON.parse(quoted),
  );
  for (let length = keys.length; length >= 0; length--) {
    const node = (length === 0 ? document.contents : document.getIn(keys.slice(0, length), true)) as
      | Node
      | null
      | undefined; // `getIn` gives nodes when it is asked to.
    if (node?.range) return Math.max(1, lines.linePos(node.range[0]).line);
  }
  return 1;
}
