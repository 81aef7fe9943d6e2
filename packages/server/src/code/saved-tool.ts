import type { ToolRegistry } from "@toolrack/core";
import { declaredTool } from "../calls/index.ts";
import { asRecord } from "../helpers/index.ts";
import { CodeProblem, isNode, type Node, prepareCode, visit } from "./source.ts";
import { ToolPaths } from "./tool-paths.ts";

/** A run of code as a single-file tool. */
export interface SavedTool {
  /** The text of `NAME.tool.js`. */
  readonly text: string;
  /** The parameters of the tool: the arguments that the code gives to tools as plain values. */
  readonly parameters: readonly string[];
  /** The tools that it calls. Those outside the sandbox need a grant. */
  readonly tools: readonly string[];
}

interface Parameter {
  readonly name: string;
  readonly value: string | number | boolean;
  readonly schema: Readonly<Record<string, unknown>>;
}

/**
 * Makes a single-file tool of code. Plain values that the code gives to tools become its parameters, with the value as
 * default and the schema of the called tool's argument. Throws `CodeProblem`.
 */
export async function toSingleFile(
  name: string,
  description: string,
  code: string,
  registry: Pick<ToolRegistry, "snapshot" | "get">,
): Promise<SavedTool> {
  const prepared = await prepareCode(code);
  refuseSearch(prepared.tree);
  const paths = ToolPaths.of(registry.snapshot());
  const parameters = new Map<string, Parameter>();
  const changes: { readonly start: number; readonly end: number; readonly text: string }[] = [];
  const tools = new Map<string, string>();
  for (const { parts, call } of prepared.uses) {
    const toolName = paths.find(parts);
    if (toolName === undefined) continue;
    tools.set(parts.join("."), toolName);
    const info = registry.get(toolName);
    const properties = asRecord(info && asRecord(declaredTool(info).inputSchema).properties);
    for (const { key, node } of plainValues(call)) {
      const value = node.value as Parameter["value"]; // `plainValues` has checked it.
      const { default: _, ...schema } = asRecord({ type: typeof value, ...asRecord(properties[key]) });
      const parameter = nameFor(key, value, parameters);
      parameters.set(parameter, { name: parameter, value, schema });
      changes.push({ start: node.start, end: node.end, text: `args[${JSON.stringify(parameter)}]` });
    }
  }
  let changed = prepared.text;
  for (const { start, end, text } of changes.sort((one, other) => other.start - one.start))
    changed = changed.slice(0, start) + text + changed.slice(end);
  const { js } = await prepareCode(changed);
  const properties = Object.fromEntries(
    [...parameters.values()].map(({ name: key, value, schema }) => [key, { ...schema, default: value }]),
  );
  return {
    text: fileText({ name, description, js, properties, tools: Object.fromEntries(tools) }),
    parameters: [...parameters.keys()],
    tools: [...new Set(tools.values())],
  };
}

/** The members of a call's argument that are plain texts, numbers and booleans. */
function plainValues(call: Node | undefined): { readonly key: string; readonly node: Node }[] {
  const [argument] = Array.isArray(call?.arguments) ? call.arguments : [];
  if (!isNode(argument) || argument.type !== "ObjectExpression" || !Array.isArray(argument.properties))
    return [];
  return argument.properties.flatMap((property: unknown) => {
    if (!isNode(property) || property.type !== "ObjectProperty" || property.computed === true) return [];
    const { key, value } = property;
    if (!isNode(key) || !isNode(value) || !/^(?:String|Numeric|Boolean)Literal$/.test(value.type)) return [];
    return [{ key: String(key.name ?? key.value), node: value }];
  });
}

/** The same argument with the same value is one parameter; with another value, it gets a number. */
function nameFor(key: string, value: unknown, taken: ReadonlyMap<string, Parameter>): string {
  for (let count = 1; ; count++) {
    const name = count === 1 ? key : `${key}${count}`;
    const known = taken.get(name);
    if (known === undefined || known.value === value) return name;
  }
}

interface FileParts {
  readonly name: string;
  readonly description: string;
  readonly js: string;
  readonly properties: object;
  readonly tools: Readonly<Record<string, string>>;
}

function fileText({ name, description, js, properties, tools }: FileParts): string {
  const metadata = { id: name, name, version: "1.0.0", description };
  const schema = { parameters: { type: "object", properties, additionalProperties: false } };
  const indented = (value: object) => JSON.stringify(value, undefined, 2).replaceAll("\n", "\n    ");
  return `"use strict";

/** The tools that the code calls, by the names that it has for them. */
const names = ${JSON.stringify(tools, undefined, 2)};

module.exports = {
  getMetadata() {
    return ${indented(metadata)};
  },

  getSchema() {
    return ${indented(schema)};
  },

  async execute(args) {
    const { api } = this;
    const callTool = async (path, given = {}) => {
      const answer = await api.callTool(names[path] ?? path, given);
      if (typeof answer !== "string" || !/^\\s*[[{]/.test(answer)) return answer;
      try {
        return JSON.parse(answer);
      } catch {
        return answer;
      }
    };
    const member = (parts) =>
      new Proxy((given) => callTool(parts.join("."), given), {
        get: (_, key) => (typeof key === "symbol" || key === "then" ? undefined : member([...parts, key])),
      });
    const tools = new Proxy({}, { get: (_, key) => (typeof key === "symbol" ? undefined : member([key])) });
    const step = (_name, work) => work();

${js}

    return run();
  },
};
`;
}

/** Refuses code that asks the rack for other tools while it runs, which a single-file tool cannot. */
function refuseSearch(tree: Node): void {
  visit(tree, (node, parent) => {
    const isCall = parent?.type === "CallExpression" && parent.callee === node;
    if (!isCall || node.type !== "Identifier" || !/^(?:search|describe)$/.test(String(node.name))) return;
    throw new CodeProblem(
      node.loc.start.line,
      `A tool cannot ask for other tools with ${String(node.name)}(). Name the tools that it calls.`,
    );
  });
}
