import { SourceMap } from "node:module";
import { isRecord, reasonOf } from "../helpers/index.ts";

/** Code that can be parsed, ready to be run. */
export interface PreparedCode {
  /** The code as it was parsed: without marks around it. */
  readonly text: string;
  /** The declaration of an async function `run`, in JavaScript. */
  readonly js: string;
  /** The places in the code where it names a tool, in order. */
  readonly uses: readonly ToolUse[];
  readonly tree: Node;
  /** The line of the written code for a line and column of `js`. */
  lineOf(line: number, column: number): number;
}

/** A place where the code names a tool: `tools.github.search`. */
export interface ToolUse {
  readonly parts: readonly string[];
  readonly line: number;
  /** Set where the tool is called at this place. */
  readonly call?: Node;
}

/** A node of the syntax tree, of which only some members are read. */
export interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly loc: { readonly start: { readonly line: number; readonly column: number } };
  readonly [member: string]: unknown;
}

/** The code cannot be run as it is written. The message names the line. */
export class CodeProblem extends Error {
  readonly line: number;
  /** `problem`: a sentence about the line. */
  constructor(line: number, problem: string) {
    super(`Line ${line}: ${problem}`);
    this.line = line;
  }
}

/** The longest code, in characters. */
export const LONGEST_CODE = 100_000;

/** Reads TypeScript or JavaScript with `await` and `return` at its top level. Throws `CodeProblem`. */
export async function prepareCode(written: string): Promise<PreparedCode> {
  const text = withoutFence(written);
  const { tree, isTyped } = await parseCode(text);
  refuseModules(tree);
  // A single function is what some models write instead of statements. It is meant to be called.
  const [only, second] = bodyOf(tree);
  const expression =
    only?.type === "ExpressionStatement" && second === undefined ? only.expression : undefined;
  const isFunction =
    isNode(expression) && /^(?:ArrowFunctionExpression|FunctionExpression)$/.test(expression.type);
  const whole = isFunction ? `return (${text.replace(/[;\s]+$/, "")}\n)();` : text;
  const wrapped = `async function run() {${whole}\n}`;
  const compiled = isTyped ? await withoutTypes(wrapped) : undefined;
  const map = compiled && new SourceMap(JSON.parse(compiled.map));
  return {
    text,
    js: compiled?.code ?? wrapped,
    uses: toolUses(tree),
    tree,
    lineOf(line, column) {
      const entry = map?.findEntry(line - 1, Math.max(0, column - 1));
      return entry !== undefined && "originalLine" in entry ? entry.originalLine + 1 : line;
    },
  };
}

/** Code that a model put between ``` marks, as in a message. Lines keep their numbers. */
function withoutFence(text: string): string {
  const fenced = /^\s*```[a-z]*(\r?\n[\s\S]*?)\r?\n?```\s*$/i.exec(text);
  return fenced?.[1] ?? text;
}

async function parseCode(text: string): Promise<{ readonly tree: Node; readonly isTyped: boolean }> {
  // Loaded on first use: most racks never run code.
  const { parse } = await import("@babel/parser");
  const options = {
    sourceType: "module",
    allowReturnOutsideFunction: true,
    allowAwaitOutsideFunction: true,
  } as const;
  // The tree of Babel has the members of `Node`.
  const toTree = (file: unknown) => (file as { readonly program: Node }).program;
  try {
    return { tree: toTree(parse(text, options)), isTyped: false };
  } catch {
    // It may have types, or an error, which the second attempt tells.
  }
  try {
    return { tree: toTree(parse(text, { ...options, plugins: ["typescript"] })), isTyped: true };
  } catch (thrown) {
    const { line = 1 } = Object(Object(thrown).loc);
    const what = reasonOf(thrown).replace(/ \(\d+:\d+\)$/, "");
    const shown = text.split("\n")[line - 1]?.trim().slice(0, 200) ?? "";
    throw new CodeProblem(Number(line), `${what}${shown === "" ? "" : `, in: ${shown}`}`);
  }
}

function refuseModules(tree: Node): void {
  visit(tree, ({ type, loc }) => {
    if (!/^(?:Import|ImportExpression|(?:Import|Export)\w*Declaration)$/.test(type)) return;
    const advice = "Call tools as tools.NAMESPACE.NAME(args), and return what you want to see.";
    throw new CodeProblem(loc.start.line, `Code has no imports and exports. ${advice}`);
  });
}

async function withoutTypes(text: string): Promise<{ readonly code: string; readonly map: string }> {
  const { transform } = await import("esbuild");
  try {
    return await transform(text, {
      loader: "ts",
      target: "node24",
      sourcemap: "external",
      logLevel: "silent",
    });
  } catch (thrown) {
    const { errors } = Object(thrown);
    const { text: what = reasonOf(thrown), location } = Object(Array.isArray(errors) ? errors[0] : undefined);
    throw new CodeProblem(Number(Object(location).line ?? 1), `${what}.`);
  }
}

/** Where the code names tools. Nothing is said of code that has a variable of its own called `tools`. */
function toolUses(tree: Node): ToolUse[] {
  const uses: ToolUse[] = [];
  let isOwn = false;
  visit(tree, (node, parent) => {
    if (node.type === "Identifier" && node.name === "tools" && isDeclaration(node, parent)) isOwn = true;
    const parts = partsOf(node);
    // Only the longest path is looked at: `tools.github` is a part of `tools.github.search`.
    if (parts === undefined || (parent !== undefined && partsOf(parent) !== undefined && parts.length < 2))
      return;
    const isCall = parent?.type === "CallExpression" && parent.callee === node;
    uses.push({ parts, line: node.loc.start.line, ...(isCall && { call: parent }) });
  });
  return isOwn ? [] : uses.filter(({ parts }) => parts.length <= 2);
}

function isDeclaration(node: Node, parent: Node | undefined): boolean {
  if (parent === undefined) return false;
  if (parent.type === "VariableDeclarator") return parent.id === node;
  if (/Function/.test(parent.type)) return Array.isArray(parent.params) && parent.params.includes(node);
  return /^(?:ObjectPattern|ArrayPattern|AssignmentPattern|CatchClause|ClassDeclaration)$/.test(parent.type);
}

/** The parts of `tools.a.b` and `tools["a"].b`; undefined for anything else. */
function partsOf(node: Node): string[] | undefined {
  if (!/^(?:Optional)?MemberExpression$/.test(node.type) || !isNode(node.object) || !isNode(node.property))
    return undefined;
  const { property, object } = node;
  const isText = node.computed === true && property.type === "StringLiteral";
  if (node.computed === true && !isText) return undefined;
  const name = String(isText ? property.value : property.name);
  if (object.type === "Identifier") return object.name === "tools" ? [name] : undefined;
  const before = partsOf(object);
  // What follows the second name belongs to the function, such as `bind`.
  return before === undefined || before.length > 1 ? undefined : [...before, name];
}

export function visit(node: Node, look: (node: Node, parent: Node | undefined) => void, parent?: Node): void {
  look(node, parent);
  for (const [key, member] of Object.entries(node)) {
    if (key === "loc" || key.endsWith("Comments")) continue;
    for (const child of Array.isArray(member) ? member : [member])
      if (isNode(child)) visit(child, look, node);
  }
}

export function isNode(value: unknown): value is Node {
  return isRecord(value) && typeof value.type === "string" && isRecord(value.loc);
}

function bodyOf({ body }: Node): Node[] {
  return Array.isArray(body) ? body.filter(isNode) : [];
}
