import { mkdir, readdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { compileSchema, type JsonSchemaObject, SchemaError, type SchemaIssue } from "@toolrack/core";
import type { Document, LineCounter, Node } from "yaml";
import { isRecord, type LoadFailure, reasonOf } from "../helpers/index.ts";
import { type RecordedTool, type SavedCall, type TestFileContent, testFileSchema } from "./saved-call.ts";

/** The folder of a workspace that holds the files of tests. */
export const TEST_FOLDER = "tests";
const ending = /\.calls\.ya?ml$/;
/** Characters of a file: reading YAML takes about a second for each MiB. */
const LONGEST = 8 * 1024 * 1024;
const DEEPEST = 100;
const MOST_ISSUES = 20;

/** A file of tests, as far as it could be read. */
export interface TestFile {
  /** Relative to the workspace, with forward slashes. */
  readonly file: string;
  readonly tests: readonly FoundTest[];
  readonly tools: Readonly<Record<string, RecordedTool>>;
  /** Why the file, or a part of it, cannot be used. A file with failures has no tests. */
  readonly failures: readonly LoadFailure[];
}

export interface FoundTest extends SavedCall {
  readonly file: string;
  readonly line: number;
}

/** The files of tests in a workspace, by name. */
export async function listTestFiles(directory: string): Promise<string[]> {
  const names = await readdir(join(directory, TEST_FOLDER)).catch(() => []);
  return names
    .filter((name) => ending.test(name))
    .sort()
    .map((name) => `${TEST_FOLDER}/${name}`);
}

export async function readTestFiles(directory: string): Promise<TestFile[]> {
  const files = await listTestFiles(directory);
  return Promise.all(files.map((file) => readTestFile(directory, file)));
}

/** Files as they were read last: the console asks often, and a MiB takes more than half a second. */
const known = new Map<string, { readonly stamp: string; readonly read: TestFile }>();

/** Reads one file. Never rejects: what is wrong with it is in `failures`. */
export async function readTestFile(directory: string, file: string): Promise<TestFile> {
  const path = join(directory, file);
  const unusable = (reason: string, remedy: string) => ({
    ...{ file, tests: [], tools: {} },
    failures: [{ file, reason, remedy }],
  });
  try {
    const { size, mtimeNs } = await stat(path, { bigint: true });
    if (size > LONGEST)
      return unusable(`It is longer than ${LONGEST / 1024 / 1024} MiB.`, "Divide it into several files.");
    const stamp = `${size} ${mtimeNs}`;
    const before = known.get(path);
    if (before?.stamp === stamp) return before.read;
    const read = await parseTestFile(await readFile(path, "utf8"), file);
    known.set(path, { stamp, read });
    return read;
  } catch (thrown) {
    return unusable(`It cannot be read: ${reasonOf(thrown)}`, "Make it readable, or remove it.");
  }
}

/** Reads the text of a file of tests. */
export async function parseTestFile(text: string, file: string): Promise<TestFile> {
  const { LineCounter } = await import("yaml");
  const lines = new LineCounter();
  const failures: LoadFailure[] = [];
  const fail = (line: number | undefined, reason: string, remedy: string) => {
    failures.push({ file, reason, remedy, ...(line !== undefined && { line }) });
  };
  const nothing: TestFile = { file, tests: [], tools: {}, failures };
  if (text.length > LONGEST) {
    fail(1, `It is longer than ${LONGEST / 1024 / 1024} MiB.`, "Divide it into several files.");
    return nothing;
  }
  let document: Document.Parsed;
  try {
    document = await parseSafely(text, lines, fail);
  } catch (thrown) {
    if (!(thrown instanceof RangeError)) throw thrown;
    fail(deepestLine(text), "Values are nested too deep.", `Nest them at most ${DEEPEST} levels deep.`);
    return nothing;
  }
  if (failures.length > 0) return nothing;
  const content: unknown = document.toJS();
  const lineAt = (path: readonly (string | number)[]) => lineOf(document, lines, path);
  for (const issue of await issuesOf(content)) {
    const path = stepsOf(issue.path);
    fail(lineAt(path), issue.message, remedyFor(path, content));
  }
  if (failures.length > 0) return nothing;
  const { tests, tools = {} } = content as TestFileContent; // The schema has been checked.
  const names = new Set<string>();
  for (const [index, { name, expect, calls = [] }] of tests.entries()) {
    if (names.has(name))
      fail(lineAt(["tests", index, "name"]), `There are two tests "${name}".`, "Rename one.");
    names.add(name);
    const flaw = isRecord(expect?.matches) ? await flawOf(expect.matches) : undefined;
    if (flaw !== undefined) {
      const path = ["tests", index, "expect", "matches", ...stepsOf(flaw.path ?? "")];
      fail(lineAt(path), flaw.message, "Write a JSON Schema.");
    }
    for (const [at, call] of calls.entries())
      if (call.error === undefined && call.answer === undefined && call.result === undefined)
        fail(
          lineAt(["tests", index, "calls", at]),
          "The call has no answer.",
          "Give it answer, result or error.",
        );
  }
  if (failures.length > 0) return nothing;
  const found = tests.map((test, index) => ({ ...test, file, line: lineAt(["tests", index]) ?? 1 }));
  return { ...nothing, tests: found, tools };
}

type Fail = (line: number | undefined, reason: string, remedy: string) => void;

/** Parses YAML that is plain data: without anchors, aliases, tags, and keys or numbers that JSON does not have. */
async function parseSafely(text: string, lines: LineCounter, fail: Fail): Promise<Document.Parsed> {
  const { isAlias, isNode, isPair, isScalar, parseDocument, visit } = await import("yaml");
  const options = { lineCounter: lines, schema: "core", logLevel: "error", prettyErrors: false } as const;
  const document = parseDocument(text, options);
  const lineAt = (offset: number | undefined) => (offset === undefined ? 1 : lines.linePos(offset).line);
  if (document.errors.some(({ message }) => message.includes("call stack"))) throw new RangeError("too deep");
  for (const { message, pos } of document.errors.slice(0, MOST_ISSUES))
    fail(lineAt(pos[0]), `It is not YAML: ${message}`, "Correct the YAML.");
  if (document.errors.length > 0) return document;
  visit(document, (key, node, ancestors) => {
    if (isPair(node)) {
      const name = isScalar(node.key) ? node.key.value : undefined;
      const isPlain = typeof name === "string" || typeof name === "number" || typeof name === "boolean";
      if (isPlain && name !== "__proto__") return undefined;
      fail(lineAt(rangeOf(node.key)), "A key must be a plain text.", "Write the key as a text.");
      return visit.BREAK;
    }
    if (!isNode(node)) return undefined;
    const line = () => lineAt(rangeOf(node));
    const plain = "Write the value itself in this place.";
    if (isAlias(node) || node.anchor !== undefined)
      fail(line(), "Anchors and aliases are not read here.", plain);
    else if (node.tag !== undefined && !isCoreTag(node.tag))
      fail(line(), `The tag ${node.tag.slice(0, 80)} is not read here.`, plain);
    else if (
      isScalar(node) &&
      typeof node.value === "number" &&
      !Number.isFinite(node.value) &&
      key !== "key"
    )
      fail(line(), "This number has no form in JSON.", "Write a finite number, or a text in quotes.");
    else if (ancestors.length > 2 * DEEPEST)
      fail(line(), "Values are nested too deep.", `Nest them at most ${DEEPEST} levels deep.`);
    else return undefined;
    return visit.BREAK;
  });
  return document;
}

/** Tags that the YAML library gives plain values by itself. */
function isCoreTag(tag: string): boolean {
  return /^tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/.test(tag);
}

function rangeOf(node: unknown): number | undefined {
  return isRecord(node) && Array.isArray(node.range) ? Number(node.range[0]) : undefined;
}

/** The line on which a text is nested deepest, for a text that is too deep to be parsed. */
function deepestLine(text: string): number {
  let depth = 0;
  let line = 1;
  for (const character of text) {
    if (character === "\n") line++;
    else if (character === "[" || character === "{") depth++;
    else if (character === "]" || character === "}") depth--;
    if (depth > DEEPEST) return line;
  }
  return line;
}

async function issuesOf(content: unknown): Promise<readonly SchemaIssue[]> {
  const outcome = await compileSchema(testFileSchema).validate(content, { strict: true });
  return outcome.ok ? [] : outcome.issues.slice(0, MOST_ISSUES);
}

/** What is wrong with a JSON Schema; undefined when it can be used. */
async function flawOf(schema: JsonSchemaObject): Promise<SchemaError | undefined> {
  try {
    await compileSchema(schema).validate(null);
    return undefined;
  } catch (thrown) {
    if (thrown instanceof SchemaError) return thrown;
    throw thrown;
  }
}

/** The steps of a path as issues write it: `tests[0].expect["x y"]`. */
function stepsOf(path: string): (string | number)[] {
  const steps = path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([^.[\]]+)/g);
  return Array.from(steps, ([, index, quoted, name = ""]) =>
    index !== undefined ? Number(index) : quoted !== undefined ? String(JSON.parse(quoted)) : name,
  );
}

/** The line of the value at a path; of a value that is missing, that of the nearest one around it. */
function lineOf(
  document: Document,
  lines: LineCounter,
  path: readonly (string | number)[],
): number | undefined {
  for (let length = path.length; length >= 0; length--) {
    const steps = path.slice(0, length);
    const node: unknown = length === 0 ? document.contents : document.getIn(steps, true);
    const offset = rangeOf(node as Node | null); // `getIn` returns nodes when it is asked to.
    if (offset !== undefined) return lines.linePos(offset).line;
  }
  return 1;
}

const innerExample = "Each call has tool, maybe arguments, and one of answer, result and error.";

function remedyFor(path: readonly (string | number)[], content: unknown): string {
  if (!isRecord(content)) return "A file of tests has the key tests, with a list of tests.";
  if (path.includes("calls")) return innerExample;
  if (path.includes("expect"))
    return "What can be expected: status, code, equals, snapshot, contains, matches.";
  if (path[0] === "tools")
    return "A recorded tool has inputSchema, and maybe description, outputSchema, readOnly.";
  if (path.length > 1)
    return "A test has name and tool, and maybe arguments, as, approve, expect, calls and ignore.";
  return "A file of tests has the keys tests and tools.";
}

/** A file of tests that is being changed. */
export interface EditedFile {
  readonly content: TestFileContent;
  /** Sets the value at a path. */
  set(path: readonly (string | number)[], value: unknown): void;
}

let writing: Promise<unknown> = Promise.resolve();

/**
 * Changes a file of tests, one change at a time. What people wrote into it stays, comments included. If `change` throws,
 * nothing is written.
 */
export function changeTestFile(
  path: string,
  change: (file: EditedFile) => void,
  schemaUrl = "http://127.0.0.1:7300/schemas/calls.json",
): Promise<void> {
  const work = async () => {
    const { isSeq, parseDocument } = await import("yaml");
    const before = await readFile(path, "utf8").catch((thrown) => {
      if (isRecord(thrown) && thrown.code === "ENOENT") return undefined;
      throw thrown;
    });
    const document = parseDocument(before ?? `# yaml-language-server: $schema=${schemaUrl}\ntests: []\n`);
    const list: unknown = document.get("tests", true);
    // An empty list is written on one line, and so would be all that is added to it.
    if (isSeq(list) && list.items.length === 0) list.flow = false;
    change({
      content: document.toJS(),
      set: (steps, value) =>
        document.setIn(steps, document.createNode(value, { aliasDuplicateObjects: false })),
    });
    const after = document.toString({ lineWidth: 120 });
    if (Buffer.byteLength(after) > LONGEST)
      throw new Error(
        `${basename(path)} would be longer than ${LONGEST / 1024 / 1024} MiB. Write the test by hand, with less in it.`,
      );
    await mkdir(dirname(path), { recursive: true });
    const passing = `${path}.${process.pid}.new`;
    await writeFile(passing, after);
    await rename(passing, path);
  };
  const done = writing.then(work, work);
  writing = done.catch(() => {});
  return done;
}

/** Where a test was written. */
export interface SavedTest {
  readonly file: string;
  readonly name: string;
  readonly test: SavedCall;
}

/**
 * Writes a test into the file of its tool, or into the named one of the folder. A name that was made up is changed until
 * no other test has it; one that was given must be free.
 */
export async function saveTest(
  directory: string,
  { test, tools }: { readonly test: SavedCall; readonly tools: Readonly<Record<string, RecordedTool>> },
  { file: wanted, isNamed, schemaUrl }: SaveOptions,
): Promise<SavedTest> {
  const base = wanted?.replace(ending, "") ?? test.tool;
  if (!/^[\w.-]+$/.test(base) || base.startsWith("."))
    throw new Error(`"${wanted}" cannot be the name of a file of tests. Use letters, digits, _ . and -.`);
  const file = `${TEST_FOLDER}/${base}.calls.yaml`;
  const there = await readTestFile(directory, file);
  const [failure] = there.failures;
  // A file that is not there yet cannot be read either.
  if (failure?.line !== undefined)
    throw new Error(`${file}:${failure.line}: ${failure.reason} ${failure.remedy}`);
  let named = test;
  const add = ({ content, set }: EditedFile) => {
    const names = new Set(content.tests.map(({ name }) => name));
    if (isNamed && names.has(test.name))
      throw new Error(`${file} has a test "${test.name}" already. Give it another name.`);
    for (let count = 2; names.has(named.name); count++) named = { ...test, name: `${test.name} (${count})` };
    set(["tests", content.tests.length], named);
    for (const [name, tool] of Object.entries(tools)) set(["tools", name], tool);
  };
  await changeTestFile(join(directory, file), add, schemaUrl);
  return { file, name: named.name, test: named };
}

export interface SaveOptions {
  /** The name of a file, with or without its ending. Default: that of the tool. */
  readonly file?: string | undefined;
  /** Whether a person gave the test its name. */
  readonly isNamed: boolean;
  readonly schemaUrl?: string;
}
