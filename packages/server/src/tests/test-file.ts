import { mkdir, readdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { compileSchema, type JsonSchemaObject, SchemaError, type SchemaIssue } from "@toolrack/core";
import { isRecord, type LoadFailure, reasonOf, whereOf } from "../helpers/index.ts";
import { parseYaml, YamlFileError } from "../helpers/yaml-file.ts";
import { type RecordedTool, type SavedCall, type TestFileContent, testFileSchema } from "./saved-call.ts";

/** The folder of a workspace that holds the files of tests. */
export const TEST_FOLDER = "tests";
const ending = /\.calls\.ya?ml$/;
/** Characters of a file: reading YAML takes about a second for each MiB. */
const LONGEST = 8 * 1024 * 1024;
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
    const entry = await stat(path, { bigint: true });
    const { size, mtimeNs } = entry;
    // A pipe or a device could be read without end.
    if (!entry.isFile()) return unusable("It is not a file.", "Remove it, or give it another name.");
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
  const failures: LoadFailure[] = [];
  const nothing: TestFile = { file, tests: [], tools: {}, failures };
  const parsed = await parseYaml(text, file, LONGEST).catch((thrown: unknown) => {
    if (!(thrown instanceof YamlFileError)) throw thrown;
    failures.push({ file, line: thrown.line, reason: thrown.reason, remedy: "Correct the YAML." });
    return undefined;
  });
  if (parsed === undefined) return nothing;
  const { value: content, lineOf } = parsed;
  const fail = (path: string, reason: string, remedy: string) => {
    failures.push({ file, reason, remedy, line: lineOf(path) });
  };
  for (const { path, message } of await issuesOf(content)) fail(path, message, remedyFor(path, content));
  if (failures.length > 0) return nothing;
  const { tests, tools = {} } = content as TestFileContent; // The schema has been checked.
  const names = new Set<string>();
  for (const [index, { name, expect, calls = [] }] of tests.entries()) {
    const at = `tests[${index}]`;
    if (names.has(name)) fail(`${at}.name`, `There are two tests "${name}".`, "Rename one.");
    names.add(name);
    const flaw = isRecord(expect?.matches) ? await flawOf(expect.matches) : undefined;
    if (flaw !== undefined) fail(`${at}.expect.matches`, flaw.message, "Write a JSON Schema.");
    for (const [call, { error, answer, result }] of calls.entries())
      if (error === undefined && answer === undefined && result === undefined)
        fail(`${at}.calls[${call}]`, "The call has no answer.", "Give it answer, result or error.");
  }
  if (failures.length > 0) return nothing;
  const found = tests.map((test, index) => ({ ...test, file, line: lineOf(`tests[${index}]`) }));
  return { ...nothing, tests: found, tools };
}

/** What is wrong with tests that are given to this process, as sentences. */
export async function flawsOf(tests: readonly unknown[]): Promise<string[]> {
  return (await issuesOf({ tests })).map(({ message }) => message.replaceAll("tests[0].", ""));
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

const innerExample = "Each call has tool, maybe arguments, and one of answer, result and error.";

function remedyFor(path: string, content: unknown): string {
  if (!isRecord(content)) return "A file of tests has the key tests, with a list of tests.";
  if (/\.calls\b/.test(path)) return innerExample;
  if (/\.expect\b/.test(path))
    return "What can be expected: status, code, equals, snapshot, contains, matches.";
  if (path.startsWith("tools"))
    return "A recorded tool has inputSchema, and maybe description, outputSchema, readOnly.";
  if (path.startsWith("tests["))
    return "A test has name and tool, and maybe arguments, as, approve, expect, calls and ignore.";
  return "A file of tests has the keys tests and tools.";
}

/** A file of tests that is being changed. */
export interface EditedFile {
  readonly content: TestFileContent;
  /** Sets the value at a path; undefined removes it. */
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
      set: (steps, value) => {
        if (value === undefined) document.deleteIn(steps);
        else document.setIn(steps, document.createNode(value, { aliasDuplicateObjects: false }));
      },
    });
    const after = document.toString({ lineWidth: 120 });
    if (Buffer.byteLength(after) > LONGEST)
      throw new Error(
        `${basename(path)} would be longer than ${LONGEST / 1024 / 1024} MiB. Write the test by hand, with less in it.`,
      );
    const [failure] = (await parseTestFile(after, basename(path))).failures;
    if (failure !== undefined)
      throw new Error(
        `${basename(path)} could not be read any more: ${failure.reason} It is left as it was.`,
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
  /** Whether it was run before, and passed. */
  readonly tried: boolean;
}

/**
 * Writes a test into the file of its tool, or into the named one of the folder. A name that was made up is changed until
 * no other test has it; one that was given must be free.
 */
export async function saveTest(
  directory: string,
  { test, tools, tried = false }: Pick<SavedTest, "test"> & Pick<TestFile, "tools"> & { tried?: boolean },
  { file: wanted, isNamed, schemaUrl }: SaveOptions,
): Promise<SavedTest> {
  const base = wanted?.replace(ending, "") ?? test.tool;
  if (!/^[\w.-]+$/.test(base) || base.startsWith("."))
    throw new Error(`"${wanted}" cannot be the name of a file of tests. Use letters, digits, _ . and -.`);
  const file = `${TEST_FOLDER}/${base}.calls.yaml`;
  const isThere = await stat(join(directory, file)).then(
    () => true,
    () => false,
  );
  const [failure] = isThere ? (await readTestFile(directory, file)).failures : [];
  if (failure !== undefined) throw new Error(`${whereOf(failure)}: ${failure.reason} ${failure.remedy}`);
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
  return { file, name: named.name, test: named, tried };
}

export interface SaveOptions {
  /** The name of a file, with or without its ending. Default: that of the tool. */
  readonly file?: string | undefined;
  /** Whether a person gave the test its name. */
  readonly isNamed: boolean;
  readonly schemaUrl?: string;
}
