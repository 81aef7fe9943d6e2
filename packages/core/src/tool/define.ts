import { invalidArguments } from "../error/messages.ts";
import { InvalidArgumentError, isToolError, toToolError } from "../error/tool-error.ts";
import { compileSchema } from "../schema/compile-schema.ts";
import type { SchemaIssue } from "../schema/issue.ts";
import { isPromise } from "../schema/library-validator.ts";
import type { InferInput } from "../schema/types.ts";
import { reasonOf } from "../schema/visit.ts";
import { definitionOf } from "../schema/zod-definition.ts";
import { nearestNames } from "./name.ts";
import { toResult } from "./to-result.ts";
import type {
  ToolConfig,
  ToolContext,
  ToolExecuteFunction,
  ToolInfo,
  ToolMetadata,
  ToolParameters,
} from "./types.ts";

/** The body of a tool in the older shape, whose `execute` gets the arguments first and the context second. */
export interface ToolBody<Parameters extends ToolParameters = ToolParameters> {
  readonly description?: string;
  readonly parameters: Parameters;
  readonly execute: (input: InferInput<Parameters>, context: ToolContext<InferInput<Parameters>>) => unknown;
  readonly formatValidationError?: (error: ValidationFailure) => string;
  readonly metadata?: ToolMetadata;
}

/** The older shape with `args` instead of `parameters`, as in `tool({...})`. */
export interface PluginTool<Args extends ToolParameters = ToolParameters> {
  readonly description?: string;
  readonly args: Args;
  readonly execute: (input: InferInput<Args>, context: ToolContext<InferInput<Args>>) => unknown;
  readonly metadata?: ToolMetadata;
}

interface ValidationFailure {
  readonly message: string;
  readonly issues: readonly SchemaIssue[];
}

/**
 * What the pipeline runs: the author's function, without the wrapper that validates the arguments of direct
 * calls.
 */
export interface ToolImplementation {
  run(context: ToolContext): unknown;
  readonly formatValidationError?: (error: ValidationFailure) => string;
}

/** What `define(id, init)` returns: a promise of the tool if `init` returns a promise. */
type Defined<Body> = Body extends PromiseLike<unknown> ? Promise<ToolInfo> : ToolInfo;

const implementation = Symbol.for("toolrack.implementation");

/**
 * Makes a tool. Takes the one-object form, and the older `define(id, body)` and `define(id, init)` where
 * `execute` gets the arguments first; an asynchronous `init` gives a promise of the tool. Throws
 * `DefinitionError` when something is missing or wrong, naming the field.
 */
export function define<const Parameters extends ToolParameters>(config: ToolConfig<Parameters>): ToolInfo;
// One overload for synchronous and asynchronous `init`: with two overloads, the compiler infers the arguments
// of `execute` for one of them only.
export function define<const Parameters extends ToolParameters, Init extends () => unknown>(
  id: string,
  init: Init & (() => ToolBody<Parameters> | Promise<ToolBody<Parameters>>),
): Defined<ReturnType<Init>>;
export function define<const Args extends ToolParameters>(id: string, body: PluginTool<Args>): ToolInfo;
export function define<const Parameters extends ToolParameters>(
  id: string,
  body: ToolBody<Parameters>,
): ToolInfo;
export function define(first: unknown, second?: unknown): ToolInfo | Promise<ToolInfo> {
  if (typeof first !== "string") return fromConfig(first as ToolConfig); // `fromConfig` checks its members.
  if (typeof second !== "function") return fromBody(first, second);
  const body: unknown = second();
  return isPromise(body) ? body.then((ready) => fromBody(first, ready)) : fromBody(first, body);
}

/**
 * Returns the definition of an opencode-style tool unchanged, with its types inferred. `Tool.define(name,
 * tool({…}))` gives the tool its name.
 */
export function tool<const Args extends ToolParameters>(definition: PluginTool<Args>): PluginTool<Args> {
  return definition;
}

/**
 * Returns the function behind a tool's `execute`, for the pipeline, which has already validated the
 * arguments.
 */
export function implementationOf(execute: ToolInfo["execute"]): ToolImplementation {
  // Only `build` and `withImplementation` set this symbol.
  const known = (execute as { [implementation]?: ToolImplementation })[implementation]; // A function may have any member.
  return known ?? { run: execute };
}

/**
 * Returns a function that does the same as `execute` when called directly, but for which the pipeline runs
 * `body`. For hosts that wrap every run.
 */
export function withImplementation(
  execute: ToolInfo["execute"],
  body: ToolImplementation,
): ToolExecuteFunction<never> {
  const wrapped: ToolExecuteFunction<never> = (context) => execute(context);
  Object.defineProperty(wrapped, implementation, { value: body });
  return wrapped;
}

function fromConfig(config: ToolConfig): ToolInfo {
  if (typeof config !== "object" || config === null) {
    throw new DefinitionError("Tool.define needs an object with name, parameters and execute.", "config");
  }
  checkKeys(config, config.name);
  checkNameAndExecute(config.name, config.execute);
  return build(config, { run: config.execute });
}

function fromBody(id: string, candidate: unknown): ToolInfo {
  if (typeof candidate !== "object" || candidate === null) {
    throw new DefinitionError(`The tool "${id}" needs an object with parameters and execute.`, "body");
  }
  const body = candidate as Partial<ToolBody & PluginTool>; // Its members are checked below.
  const { execute, formatValidationError } = body;
  checkNameAndExecute(id, execute);
  const [misplaced] = misplacedMetadata(body);
  if (misplaced !== undefined) throw new DefinitionError(metadataProblem(id, misplaced), misplaced);
  const parameters = body.parameters ?? body.args;
  const said = {
    ...(body.description !== undefined && { description: body.description }),
    ...(body.metadata !== undefined && { metadata: body.metadata }),
  };
  const run = (context: ToolContext<never>) => execute.call(body, context.input, context);
  return build(
    { name: id, parameters: parameters as ToolParameters, ...said }, // `build` checks the schema.
    formatValidationError === undefined ? { run } : { run, formatValidationError },
  );
}

function build(config: Omit<ToolConfig, "execute">, body: ToolImplementation): ToolInfo {
  const { name, description, parameters, outputSchema, metadata } = config;
  if (description !== undefined && typeof description !== "string")
    throw new DefinitionError(`The description of the tool "${name}" is no text. Write one.`, "description");
  checkDangerous(name, metadata?.dangerous);
  checkSchema(name, "parameters", parameters);
  if (outputSchema !== undefined) checkSchema(name, "outputSchema", outputSchema);
  const execute = checkedExecute(name, parameters, body, metadata?.strict === true);
  Object.defineProperty(execute, implementation, { value: body });
  return Object.freeze({
    ...config,
    execute,
    metadata: Object.freeze({ ...metadata }),
    createdAt: Date.now(),
    disabled: false,
  });
}

/**
 * Makes the `execute` of a tool. It may also be called outside a registry, so it validates the arguments and
 * converts the result itself.
 */
function checkedExecute(
  name: string,
  parameters: ToolParameters,
  body: ToolImplementation,
  strict: boolean,
): ToolExecuteFunction<never> {
  return async (context) => {
    const input: unknown = context.input;
    const outcome = await compileSchema(parameters).validate(input, { strict });
    if (!outcome.ok) {
      const message = invalidArguments(name, outcome.issues);
      throw new InvalidArgumentError(
        body.formatValidationError?.({ message, issues: outcome.issues }) ?? message,
        { toolName: name, input, data: { issues: outcome.issues } },
      );
    }
    try {
      const checked = { value: outcome.value, enumerable: true };
      const members = { ...Object.getOwnPropertyDescriptors(context), input: checked };
      // The validated value has the schema's type, which the compiler cannot see.
      const validated = Object.create(context, members) as ToolContext<never>;
      return toResult(await body.run(validated));
    } catch (thrown) {
      throw isToolError(thrown) ? thrown : toToolError(thrown, name, input);
    }
  };
}

/** The keys of a `ToolConfig`; the last three are those of a finished tool that is defined anew. */
const toolKeys = new Set(
  "name description parameters execute metadata title displayName aliases outputSchema createdAt disabled origin".split(
    " ",
  ),
);
const metadataKeys =
  "category permissions calls timeout idleTimeout dangerous confirm tags disabledReason readOnly idempotent lane openWorld strict outputCheck loop callers".split(
    " ",
  );
/** What other frameworks call the same things. */
const otherNames: Readonly<Record<string, string>> = {
  ...{ inputSchema: "parameters", args: "parameters", schema: "parameters", input: "parameters" },
  ...{ handler: "execute", run: "execute", id: "name" },
};

/** A key without effect may be one that guards the tool, such as `dangerous`, so each is refused. */
function checkKeys(config: object, name: unknown): void {
  const unknown = Object.entries(config).find(([key, value]) => value !== undefined && !toolKeys.has(key));
  if (unknown === undefined) return;
  const [key] = unknown;
  const tool = typeof name === "string" ? name : "";
  if (metadataKeys.includes(key)) throw new DefinitionError(metadataProblem(tool, key), key);
  const meant = otherNames[key] ?? nearestNames(key, toolKeys)[0];
  const remedy =
    meant === undefined ? "Remove it, or write it into metadata, which keeps any key." : `Write "${meant}".`;
  throw new DefinitionError(`The tool "${tool}" has a key "${key}", which no tool has. ${remedy}`, key);
}

/** The keys beside a tool's name that have an effect only in its `metadata`. */
export function misplacedMetadata(definition: object): string[] {
  return Object.entries(definition).flatMap(([key, value]) =>
    value !== undefined && metadataKeys.includes(key) ? [key] : [],
  );
}

export function metadataProblem(name: string, key: string): string {
  return `The tool "${name}" has "${key}" beside its name, where it has no effect. Write it into metadata: metadata: { ${key}: … }.`;
}

/** Anything but `true` would let the tool run unasked, whatever its author meant. */
function checkDangerous(name: string, value: unknown): void {
  if (value === undefined || typeof value === "boolean") return;
  const problem = `The tool "${name}" has a metadata.dangerous that is neither true nor false. Write dangerous: true.`;
  throw new DefinitionError(problem, "metadata");
}

export function checkNameAndExecute<Execute>(
  name: unknown,
  execute: Execute,
): asserts execute is NonNullable<Execute> {
  if (typeof name !== "string" || name.trim() === "")
    throw new DefinitionError("A tool needs a name: a text that is not empty.", "name");
  if (typeof execute !== "function")
    throw new DefinitionError(`The tool "${name}" has no execute function.`, "execute");
}

/** Kinds of Zod schemas that no object can meet. */
const neverObjects = new Set([
  "string",
  "number",
  "int",
  "boolean",
  "bigint",
  "array",
  "tuple",
  "enum",
  "date",
  "null",
]);

function checkSchema(name: string, field: "parameters" | "outputSchema", schema: unknown): void {
  const kind = field === "parameters" ? definitionOf(schema)?.type : undefined;
  if (kind !== undefined && neverObjects.has(kind)) {
    throw new DefinitionError(
      `The parameters of the tool "${name}" are a ${kind}, and arguments are always an object. Write z.object({ … }).`,
      field,
    );
  }
  try {
    compileSchema(schema);
  } catch (thrown) {
    const problem = reasonOf(thrown);
    throw new DefinitionError(`The ${field} of the tool "${name}" cannot be used. ${problem}`, field, thrown);
  }
}

/** Thrown when a tool, a prompt or a resource cannot be defined or registered; never thrown during a call. */
export class DefinitionError extends Error {
  override readonly name = "DefinitionError";
  /** The part of the definition that is wrong. */
  readonly field: string;

  constructor(message: string, field: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.field = field;
  }
}
