import { invalidArguments } from "../error/messages.ts";
import { InvalidArgumentError, isToolError, toToolError } from "../error/tool-error.ts";
import { compileSchema } from "../schema/compile-schema.ts";
import type { SchemaIssue } from "../schema/issue.ts";
import type { InferInput } from "../schema/types.ts";
import type { ToolContext } from "./context.ts";
import { type ToolResult, toResult } from "./result.ts";

/** The body of a tool in the older shape, where arguments come first. */
export interface ToolBody<Parameters extends ToolParameters = ToolParameters> {
  readonly description?: string;
  readonly parameters: Parameters;
  readonly execute: (input: InferInput<Parameters>, context: ToolContext<InferInput<Parameters>>) => unknown;
  readonly formatValidationError?: (error: ValidationFailure) => string;
  readonly metadata?: ToolMetadata;
}

/** The same with `args`, as `tool({...})` writes it. */
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

/** What the pipeline runs: the author's function, without the wrapper that checks direct calls. */
export interface ToolImplementation {
  readonly run: (context: ToolContext<never>) => unknown;
  readonly formatValidationError?: (error: ValidationFailure) => string;
}

/** What becomes of the body that an `init` returns. */
type Defined<Body> = Body extends PromiseLike<unknown> ? Promise<ToolInfo> : ToolInfo;

const implementation = Symbol.for("toolrack.implementation");

/**
 * Makes a tool. Takes the one-object form, and the older `define(id, body)` and `define(id, init)` where
 * `execute` gets the arguments first; an asynchronous `init` gives a promise of the tool. Throws
 * `DefinitionError` when something is missing or wrong, naming the field.
 */
export function define<const Parameters extends ToolParameters>(config: ToolConfig<Parameters>): ToolInfo;
// One overload for both kinds of `init`: of two, the compiler types the arguments of `execute` only in one.
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
  if (typeof first !== "string") return fromConfig(first as ToolConfig);
  if (typeof second !== "function") return fromBody(first, second);
  const body: unknown = second();
  return isThenable(body)
    ? Promise.resolve(body).then((ready) => fromBody(first, ready))
    : fromBody(first, body);
}

/** Marks an opencode-style tool. It gets its name where it is hung on the rack: `Tool.define(name, tool({…}))`. */
export function tool<const Args extends ToolParameters>(definition: PluginTool<Args>): PluginTool<Args> {
  return definition;
}

/** The function behind a tool's `execute`, for the pipeline, which has already validated. */
export function implementationOf(execute: ToolInfo["execute"]): ToolImplementation {
  const known = (execute as { [implementation]?: ToolImplementation })[implementation];
  return known ?? { run: execute };
}

/** The same `execute` with another function behind it: for hosts that put something around every run. */
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
  const { name, execute } = config;
  checkName(name);
  if (typeof execute !== "function") {
    throw new DefinitionError(`The tool "${name}" has no execute function.`, "execute");
  }
  return build(config, { run: execute });
}

function fromBody(id: string, candidate: unknown): ToolInfo {
  checkName(id);
  if (typeof candidate !== "object" || candidate === null) {
    throw new DefinitionError(`The tool "${id}" needs an object with parameters and execute.`, "body");
  }
  const body = candidate as Partial<ToolBody & PluginTool>;
  const { execute, formatValidationError } = body;
  if (typeof execute !== "function") {
    throw new DefinitionError(`The tool "${id}" has no execute function.`, "execute");
  }
  const parameters = body.parameters ?? body.args;
  const run = (context: ToolContext<never>) => execute.call(body, context.input, context);
  return build(
    { name: id, parameters: parameters as ToolParameters, ...pick(body) },
    formatValidationError === undefined ? { run } : { run, formatValidationError },
  );
}

function pick(body: Partial<ToolBody>): Pick<ToolConfig, "description" | "metadata"> {
  const { description, metadata } = body;
  return {
    ...(description === undefined ? {} : { description }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

function build(config: Omit<ToolConfig, "execute">, body: ToolImplementation): ToolInfo {
  const { name, parameters, outputSchema, metadata } = config;
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

/** `info.execute(ctx)` may also be called outside a registry; then it validates and converts by itself. */
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
        {
          toolName: name,
          input,
          data: { issues: outcome.issues },
        },
      );
    }
    try {
      // The validated value is what the schema's type promises; only the compiler cannot see it.
      const validated = Object.create(context, { input: { value: outcome.value } }) as ToolContext<never>;
      return toResult(await body.run(validated));
    } catch (thrown) {
      throw isToolError(thrown) ? thrown : toToolError(thrown, name, input);
    }
  };
}

function checkName(name: unknown): asserts name is string {
  if (typeof name === "string" && name.trim() !== "") return;
  throw new DefinitionError("A tool needs a name: a text that is not empty.", "name");
}

function checkSchema(name: string, field: "parameters" | "outputSchema", schema: unknown): void {
  try {
    compileSchema(schema);
  } catch (thrown) {
    const problem = thrown instanceof Error ? thrown.message : String(thrown);
    throw new DefinitionError(`The ${field} of the tool "${name}" cannot be used. ${problem}`, field, thrown);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** A tool that cannot be made or hung on the rack. Raised while defining or registering, never during a call. */
export class DefinitionError extends Error {
  override readonly name = "DefinitionError";
  /** The part of the definition that is wrong. */
  readonly field: string;

  constructor(message: string, field: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.field = field;
  }
}

/**
 * A schema in any accepted shape: Zod 4, Zod 3, a Standard Schema, a plain object of Zod fields, or JSON Schema.
 */
export type ToolParameters = object;

/**
 * Runs the tool. It may return a `ToolResult`, an MCP result, a string or any JSON value, and may throw
 * anything: the pipeline turns both into one form.
 */
export type ToolExecuteFunction<Input = Record<string, unknown>> = (
  context: ToolContext<Input>,
) => Promise<ToolResult | unknown>;

/** What an author hands to `Tool.define`. */
export interface ToolConfig<Parameters extends ToolParameters = ToolParameters> {
  readonly name: string;
  readonly description?: string;
  readonly parameters: Parameters;
  readonly execute: (context: ToolContext<InferInput<Parameters>>) => unknown;
  readonly metadata?: ToolMetadata;
  /** A short name for people. */
  readonly title?: string;
  /** The name people see in logs and lists when it differs from `name`, such as `SearXNG Search/网页搜索`. */
  readonly displayName?: string;
  /** Other names under which the tool answers. */
  readonly aliases?: readonly string[];
  /** What `structured` must look like. */
  readonly outputSchema?: ToolParameters;
}

/** A tool as the registry holds it. Frozen: a change makes a new one. */
export interface ToolInfo {
  /** Matches `^[A-Za-z0-9_-]{1,64}$` once registered. */
  readonly name: string;
  readonly description?: string;
  readonly parameters: ToolParameters;
  readonly execute: ToolExecuteFunction<never>;
  readonly metadata: ToolMetadata;
  readonly createdAt: number;
  readonly disabled: boolean;
  readonly title?: string;
  readonly displayName?: string;
  readonly aliases?: readonly string[];
  readonly outputSchema?: ToolParameters;
  /** Where it came from, for people: a file, a table row, an MCP server. */
  readonly origin?: string;
}

/** How a tool takes part in loop detection. */
export interface LoopPolicy {
  /** What makes two calls the same: the named arguments, or whatever the function returns. */
  readonly key?: readonly string[] | ((input: Record<string, unknown>) => unknown);
  /** `"poll"`: waiting by repeating is this tool's purpose, so it gets four times the patience. */
  readonly repeatable?: "poll";
}

/** What a tool says about itself beside its schema. Unknown keys are kept and passed on. */
export interface ToolMetadata {
  readonly category?: string;
  /** What the caller must hold. `*` inside a held permission matches any run of characters. */
  readonly permissions?: readonly string[];
  /**
   * Names of tools, with `*` for any run of characters, that this one calls on behalf of whoever may use it, also of a
   * caller who could not call them directly.
   */
  readonly calls?: readonly string[];
  /** Longest run in milliseconds; 0 means no limit. */
  readonly timeout?: number;
  /** Longest silence in milliseconds; every `progress()` and `metadata()` starts it anew. */
  readonly idleTimeout?: number;
  /** Needs a person's consent before it runs. */
  readonly dangerous?: boolean;
  /** The question the person is asked. */
  readonly confirm?: string;
  readonly tags?: readonly string[];
  /** Why it is switched off and what would switch it on again, as a sentence, for whoever calls it. */
  readonly disabledReason?: string;
  /** Changes nothing: repeating it with the same result brings nothing new. */
  readonly readOnly?: boolean;
  /** May be run twice with the effect of once. */
  readonly idempotent?: boolean;
  /** Reaches systems outside the rack's control. */
  readonly openWorld?: boolean;
  /**
   * Refuse unknown arguments, at any depth, instead of dropping or keeping them. A key is unknown where the schema
   * lists the keys of an object without it and says nothing about other keys, and where parsing would lose it.
   */
  readonly strict?: boolean;
  /** A result that does not fit `outputSchema`: an error (`strict`, the default) or only a note in the record. */
  readonly outputCheck?: "strict" | "warn";
  /** `false`: never part of loop detection. */
  readonly loop?: false | LoopPolicy;
  readonly [key: string]: unknown;
}
