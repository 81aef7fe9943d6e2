import {
  type JsonSchemaObject,
  type PluginTool,
  Prompt,
  type PromptInfo,
  Resource,
  type ResourceInfo,
  Tool,
  type ToolContext,
  type ToolInfo,
  type ToolMetadata,
} from "@toolrack/core";
import { metadataProblem, misplacedMetadata } from "@toolrack/core/internal";
import type { InternalTool, InternalToolContext } from "../calls/index.ts";
import { defined, isRecord, LoadError } from "../helpers/index.ts";
import { definitionWarnings, missingMembers, nameWarnings, withHints } from "./contract-checks.ts";
import type { FileVersion, RecognisedFile } from "./load-report.ts";

/** What handlers of contract 1 get beside the context of every tool. */
export type InternalSurroundings = Pick<InternalToolContext, "service" | "model" | "workspace"> & {
  readonly [name: string]: unknown;
};

/** Where a file lies: the folders below the tools folder, and its name without the ending. */
export interface FilePlace {
  readonly folders: readonly string[];
  readonly stem: string;
  /** Relative to the workspace. */
  readonly origin: string;
}

/**
 * Contract 1: an object with a `handler`. The folder is the group, and the tool's name is made of the group
 * and the object's name.
 */
export function adaptInternal(
  exported: unknown,
  place: FilePlace,
  version: FileVersion,
  surroundings: InternalSurroundings,
): RecognisedFile | undefined {
  if (!isInternalTool(exported)) return undefined;
  const warnings: string[] = [];
  const group = place.folders.join("_");
  const prefix = group === "" ? "internal_" : `internal_${group}_`;
  const action = actionOf(exported, place, prefix, warnings);
  const { description, inputSchema, outputSchema, metadata } = exported;
  if (inputSchema === undefined || inputSchema === null)
    warnings.push("It has no inputSchema, so its arguments are not checked. Add one.");
  const name = prefix + action;
  warnings.push(
    ...nameWarnings(action, place.stem, place.folders),
    ...definitionWarnings({ name, description, parameters: inputSchema, written: exported }),
  );
  const hints = missingMembers(exported.handler, surroundings);
  warnings.push(...hints);
  const run = (context: ToolContext) => exported.handler(context.input, contextFor(context, surroundings));

  const info = Tool.define({
    name,
    description: description ?? "",
    parameters: inputSchema ?? { type: "object" },
    ...(outputSchema === undefined ? {} : { outputSchema }),
    metadata: { ...(group === "" ? {} : { category: group }), ...metadata },
    execute: version.watch(hints.length === 0 ? run : hinting(run, hints)),
  });
  return { contract: "internal", tools: [{ ...info, origin: place.origin }], warnings };
}

/** Wraps the function so that errors of missing services and models say what is missing. */
function hinting(run: (context: ToolContext) => unknown, hints: readonly string[]) {
  return async (context: ToolContext) => {
    try {
      return await run(context);
    } catch (thrown) {
      throw withHints(thrown, hints);
    }
  };
}

function actionOf(tool: InternalTool, place: FilePlace, prefix: string, warnings: string[]): string {
  const written = typeof tool.name === "string" && tool.name.trim() !== "" ? tool.name.trim() : undefined;
  if (written === undefined) {
    warnings.push(`It has no name; the file name "${place.stem}" is used. Write name: "${place.stem}".`);
    return place.stem;
  }
  if (!written.startsWith("internal_")) return written;
  const action = written.startsWith(prefix)
    ? written.slice(prefix.length)
    : written.slice("internal_".length) || place.stem;
  warnings.push(
    `Its name "${written}" already has the prefix. Write "${action}": the folder gives the rest.`,
  );
  return action;
}

/** The call's context, with the services and models of the host application added. */
function contextFor(context: ToolContext, surroundings: InternalSurroundings): InternalToolContext {
  return Object.assign(Object.create(context), surroundings);
}

/** The pipeline validates the arguments, so the handler may declare any type for them. */
type CallableTool = InternalTool & { handler(args: unknown, ctx: InternalToolContext): unknown };

function isInternalTool(value: unknown): value is CallableTool {
  return isRecord(value) && typeof value.handler === "function";
}

/** The `schema` of contract 2: a JSON Schema with the tool's name and description in it. */
interface ToolboxSchema extends JsonSchemaObject {
  readonly name?: string;
  readonly description?: string;
  readonly outputSchema?: JsonSchemaObject;
  readonly metadata?: ToolMetadata;
}

/** Contract 2: exports `schema` and a default function that takes the request. The file name is an alias. */
export function adaptToolbox(
  exports: Record<string, unknown>,
  place: FilePlace,
  version: FileVersion,
): RecognisedFile | undefined {
  const { default: run } = exports;
  if (typeof run !== "function") return undefined;
  const warnings: string[] = [];
  const schema: ToolboxSchema | undefined = isRecord(exports.schema) ? exports.schema : undefined;
  if (schema === undefined) {
    warnings.push(
      "It exports no schema, so the file name is its name and its arguments are not checked. Export one.",
    );
  }
  const isNamed = typeof schema?.name === "string" && schema.name.trim() !== "";
  const name = isNamed ? String(schema.name).trim() : place.stem;
  if (schema !== undefined && !isNamed)
    warnings.push(`Its schema has no name; the file name "${place.stem}" is used. Write name into schema.`);
  const { name: _, description, outputSchema, metadata, ...parameters } = schema ?? { type: "object" };
  if (schema !== undefined)
    warnings.push(...definitionWarnings({ name, description, parameters, written: schema }));

  const info = Tool.define({
    name,
    description: description ?? "",
    parameters,
    ...(name.toLowerCase() === place.stem.toLowerCase() ? {} : { aliases: [place.stem] }),
    ...outputOf(outputSchema),
    metadata: {
      ...(place.folders.length === 0 ? {} : { category: place.folders.join("/") }),
      ...(outputSchema === undefined ? {} : { resultSchema: outputSchema, outputCheck: "hint" }),
      ...metadata,
    },
    execute: version.watch((context: ToolContext) =>
      run({ method: "tools/call", params: { name, arguments: context.input } }, context),
    ),
  });
  return { contract: "toolbox", tools: [{ ...info, origin: place.origin }], warnings };
}

/**
 * Most output schemas of contract 2 describe the whole MCP result with its `content`, often loosely. They are
 * shown, but results are not checked against them. A schema of the data itself is checked, but a result that
 * does not fit it is only flagged (`outputCheck: "hint"`). An author who writes `outputCheck: "strict"` promises
 * that results fit: then MCP clients see the schema, and a result that does not fit fails the call.
 */
function outputOf(schema: JsonSchemaObject | undefined): { outputSchema?: JsonSchemaObject } {
  const { properties } = schema ?? {};
  if (typeof properties !== "object" || properties === null || "content" in properties) return {};
  return { outputSchema: schema! };
}

/**
 * Contract 3: values made by `Tool.define`, one or many, under any names, in lists too; functions `create…Tool` and
 * classes that give such tools; and opencode-style tools, where the default export is named after the file and every
 * other one `{file}_{export}`.
 */
export async function adaptDefined(
  exports: Record<string, unknown>,
  place: FilePlace,
  version: FileVersion,
): Promise<RecognisedFile | undefined> {
  const tools: ToolInfo[] = [];
  let contract: RecognisedFile["contract"] = "define";
  for (const [key, exported] of Object.entries(exports)) {
    for (const value of (await Promise.resolve(exported).then((settled) => [settled])).flat()) {
      if (isToolInfo(value)) tools.push(runByVersion(fromMade(value), place, version));
      else if (isPluginTool(value)) {
        contract = "plugin";
        const name = key === "default" ? place.stem : `${place.stem}_${key}`;
        tools.push(runByVersion(Tool.define(name, value), place, version));
      }
    }
  }
  // A class beside finished tools is most likely their helper.
  for (const value of tools.length === 0 ? await madeBy(exports) : []) {
    if (isToolInfo(value)) tools.push(runByVersion(fromMade(value), place, version));
  }
  // The same tool is often exported twice: by its name and as the default.
  const distinct = [...new Map(tools.map((info) => [info.name, info])).values()];
  return distinct.length === 0 ? undefined : { contract, tools: distinct, warnings: [] };
}

/**
 * The values that the file's functions `create…Tool` return; without such functions, the instances of its classes with
 * an `execute`. Only those that need no arguments are called.
 */
async function madeBy(exports: Record<string, unknown>): Promise<unknown[]> {
  const found = Object.entries(exports).flatMap(([key, value]) => makerOf(key, value) ?? []);
  const functions = found.filter(({ kind }) => kind === "function");
  const used = functions.length > 0 ? functions : found;
  const makers = new Map(used.map(({ of, make }) => [of, make]));
  return (await Promise.all([...makers.values()].map((make) => make()))).flat();
}

interface Maker {
  readonly kind: "function" | "class";
  /** What the file exports; it is often exported twice, by its name and as the default. */
  readonly of: unknown;
  readonly make: () => unknown;
}

/** A class that gives its instances an `execute` of their own. */
const ownExecute = /\bexecute\s*=/;

function makerOf(key: string, value: unknown): Maker | undefined {
  if (typeof value !== "function" || value.length > 0) return undefined;
  if (/^class\b/.test(Function.prototype.toString.call(value))) {
    if (typeof value.prototype?.execute !== "function" && !ownExecute.test(String(value))) return undefined;
    return { kind: "class", of: value, make: () => Reflect.construct(value, []) };
  }
  const isNamed = [key, value.name].some((name) => /^create\w*Tools?$/.test(name));
  return isNamed ? { kind: "function", of: value, make: () => value() } : undefined;
}

/** Tools that were made without `Tool.define` get the arguments first, and may say that they are not enabled. */
function fromMade(made: ToolInfo): ToolInfo {
  if (Tool.implementationOf(made.execute).run !== made.execute) return made;
  const { category, enabled, ...others } = made as MadeTool; // A tool may lack both members.
  const { name, description, parameters, metadata, title, displayName, aliases, outputSchema } = made;
  const [misplaced] = misplacedMetadata(others);
  if (misplaced !== undefined)
    throw new LoadError(metadataProblem(name, misplaced), "Until then the tool is not served.");
  const said = { ...(typeof category === "string" && { category }), ...metadata };
  // It was written for arguments, whatever the type says.
  const execute = made.execute as (...given: unknown[]) => Promise<unknown>;
  const isContextFirst = takesContext(execute, parameters);
  const info = Tool.define({
    ...{ name, description: description ?? "", parameters, metadata: said },
    ...defined({ title, displayName, aliases, outputSchema }),
    execute: (context: ToolContext) =>
      execute.apply(made, isContextFirst ? [context] : [context.input, context]),
  });
  return enabled === false || made.disabled === true ? { ...info, disabled: true } : info;
}

const firstParameter = /^(?:async\s+)?(?:([\w$]+)\s*=>|[^(=]*\(\s*([\w$]+|\{[^}]*\}))/;

/** Whether a function takes the context first, as those of `Tool.define` do: by its name, or because it reads `input` of it. */
function takesContext(execute: (...given: unknown[]) => unknown, parameters: unknown): boolean {
  const text = Function.prototype.toString.call(execute);
  const [, bare, name = bare ?? ""] = firstParameter.exec(text) ?? [];
  if (name === "ctx" || name === "context") return true;
  const declared = isRecord(parameters) ? (parameters.properties ?? parameters.shape) : undefined;
  const isDeclared = isRecord(declared) && "input" in declared;
  if (isDeclared || name === "") return false;
  return name.startsWith("{") ? /\binput\b/.test(name) : text.includes(`${name}.input`);
}

/** What tools of other frameworks have besides the members of `ToolInfo`. */
type MadeTool = ToolInfo & { readonly category?: unknown; readonly enabled?: unknown };

/** Returns the tool with its calls run by the file version, which counts them and maps their stack traces. */
function runByVersion(info: ToolInfo, { origin }: FilePlace, version: FileVersion): ToolInfo {
  const run = Tool.implementationOf(info.execute);
  const execute = Tool.withImplementation(info.execute, {
    ...run,
    run: version.watch(run.run),
  });
  return { ...info, execute, origin };
}

function isToolInfo(value: unknown): value is ToolInfo {
  if (!isRecord(value)) return false;
  const { name, parameters, execute } = value;
  return typeof name === "string" && typeof parameters === "object" && typeof execute === "function";
}

function isPluginTool(value: unknown): value is PluginTool {
  if (!isRecord(value)) return false;
  const { args, parameters, execute } = value;
  return typeof execute === "function" && typeof (args ?? parameters) === "object";
}

/** The prompts and resources that a file exports, as single values or in lists. */
export function offeredBy(exports: Record<string, unknown>): {
  readonly prompts: readonly PromptInfo[];
  readonly resources: readonly ResourceInfo[];
} {
  // A value is often exported twice: by its name and as the default.
  const values = [...new Set(Object.values(exports).flat())];
  return { prompts: values.filter(Prompt.is), resources: values.filter(Resource.is) };
}
