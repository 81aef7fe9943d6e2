import { distinctJson } from "../schema/json.ts";
import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  type JsonType,
  listOf,
  pointer,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemaFrom,
  typesOf,
} from "../schema/visit.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ToolInfo } from "../tool/types.ts";
import { describeConstraint, type TakeNote, withRemarks } from "./format-notes.ts";
import { prepareSchema, renameProperties } from "./provider-schema.ts";
import { mergeSchemas } from "./schema-merge.ts";
import { type ProviderRules, SchemaLowering } from "./schema-rewriter.ts";
import {
  type FormattedTools,
  formatTools,
  isMadeUpCallId,
  modelText,
  readCalls,
  type ToolCallRequest,
  type ToolDefinition,
} from "./tools.ts";

/** A member of `functionDeclarations`. */
interface GeminiFunctionDeclaration {
  readonly name: string;
  readonly description: string;
  /** A subset of OpenAPI's schema. Absent when the tool takes no arguments. */
  readonly parameters?: JsonSchemaObject;
  /** JSON Schema, in place of `parameters`. */
  readonly parametersJsonSchema?: JsonSchemaObject;
}

interface GeminiOptions {
  /** `parametersJsonSchema` loses less, but only newer models and endpoints take it. */
  readonly schemaField?: "parameters" | "parametersJsonSchema";
}

const names = { accepts: /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/, maxLength: 64 };
const propertyNames = /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/;

/** The `functionDeclarations` of one Gemini tool. */
export function toGeminiTools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: GeminiOptions = {},
): FormattedTools<GeminiFunctionDeclaration> {
  return formatTools(tools, {
    names,
    format: (definition, name, note) => {
      // Gemini requires a description.
      const head = { name, description: definition.description || definition.title || definition.name };
      const prepared = prepareSchema(definition.inputSchema, note);
      const { schema, restore } = renameProperties(prepared, propertyNames, note);
      if (options.schemaField === "parametersJsonSchema")
        return { tool: { ...head, parametersJsonSchema: schema }, restore };
      const parameters = toGeminiSchema(schema, note);
      // Gemini refuses an object without properties at the root.
      return { tool: parameters.properties === undefined ? head : { ...head, parameters }, restore };
    },
  });
}

/** The calls among the parts of a model's content. Never throws. */
export function parseGeminiFunctionCalls(parts: unknown): ToolCallRequest[] {
  return readCalls(parts, "parts", (part) => {
    const call = part.functionCall ?? part.function_call;
    // Gemini leaves `args` out when there are none.
    return isRecord(call) ? { ...call, arguments: call.args ?? {} } : undefined;
  });
}

/** The part that answers a call. `call.name` is the name the model used. */
export function toGeminiFunctionResponse(call: Pick<ToolCallRequest, "id" | "name">, result: ToolResult) {
  const text = modelText(result, result.attachments);
  return {
    functionResponse: {
      ...(!isMadeUpCallId(call.id) && { id: call.id }),
      name: call.name,
      response: result.type === "error" ? { error: text } : { output: text },
    },
  };
}

/** How deep references are expanded. If the result is too large, the next smaller depth is tried. */
const referenceDepths = [8, 5, 3, 2, 1];
const maxNodes = 3_000;
/** How often a reference may be expanded inside itself. */
const maxRepeats = 2;

class TooLarge extends Error {}

/**
 * The schema in the subset of OpenAPI that Gemini's `parameters` accepts: no references, no `oneOf`, `allOf`
 * or `const`, one type for each schema. Expects a schema from `prepareSchema`.
 */
function toGeminiSchema(root: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  for (const referenceDepth of referenceDepths) {
    const taken: Parameters<TakeNote>[] = [];
    const limit = referenceDepth === 1 ? Number.POSITIVE_INFINITY : maxNodes;
    try {
      const take: TakeNote = (...entry) => taken.push(entry);
      const schema = new GeminiLowering(root, take, limit, referenceDepth).lower(root, "");
      for (const entry of taken) note(...entry);
      return schema;
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
    }
  }
  throw new TooLarge("the schema is too large");
}

/** The formats Gemini takes; any other is an error there. */
const keptFormats: Readonly<Partial<Record<JsonType, readonly unknown[]>>> = {
  string: ["date-time", "enum"],
  number: ["float", "double"],
  integer: ["int32", "int64"],
};

const geminiRules: ProviderRules = {
  kept: {
    string: ["format", "pattern", "minLength", "maxLength"],
    number: ["format", "minimum", "maximum"],
    integer: ["format", "minimum", "maximum"],
    array: ["minItems", "maxItems"],
    object: ["minProperties", "maxProperties"],
  },
  keeps: (keyword, value, type) => keyword !== "format" || keptFormats[type]?.includes(value) === true,
  handled: ["default", "example", "propertyOrdering"],
  // The rack itself drops or refuses further properties, so a model need not know.
  isSilent: (keyword, value) => value === false || keyword.startsWith("x-"),
  notKept: "Gemini has no field for it.",
};

class GeminiLowering extends SchemaLowering {
  protected readonly rules = geminiRules;
  readonly #referenceDepth: number;
  /** The references that are being expanded. */
  readonly #followed: string[] = [];

  constructor(root: JsonSchemaObject, note: TakeNote, limit: number, referenceDepth: number) {
    super(root, note, limit);
    this.#referenceDepth = referenceDepth;
  }

  protected tooLarge(): Error {
    return new TooLarge();
  }

  /** Gemini needs a type, so all of them are listed. */
  protected lowerAnyValue(node: JsonSchema, path: string): JsonSchemaObject {
    this.note(path, "type", "rewritten", "Any value is accepted; sent as a choice of every type.");
    const scalars = ["string", "number", "boolean", "object"].map((type) => ({ type, nullable: true }));
    const list = { type: "array", items: { type: "string" }, nullable: true };
    return this.unite([...scalars, list], isRecord(node) ? node : {}, path);
  }

  protected lowerReference(reference: string, siblings: JsonSchemaObject, path: string): JsonSchemaObject {
    const target = resolveReference(this.root, reference) ?? true;
    const repeats = this.#followed.filter((entry) => entry === reference).length;
    // The root is not counted in `#followed`, so a reference to it is allowed one repeat less.
    const allowed = reference === "#" ? maxRepeats - 1 : maxRepeats;
    if (repeats >= allowed || this.#followed.length >= this.#referenceDepth) {
      this.note(path, "$ref", "described", `Cut here: ${reference} goes deeper than Gemini can be told.`);
      return cutReference(siblings, reference, target);
    }
    const isBare = Object.keys(siblings).length === 0;
    const merged = isBare ? target : mergeSchemas([siblings, target], this.root);
    this.#followed.push(reference);
    try {
      return this.lower(merged ?? { ...(isRecord(target) && target), ...siblings }, path);
    } finally {
      this.#followed.pop();
    }
  }

  /**
   * Does nothing: the schema for Gemini may accept more than the tool does, because the rack checks the
   * arguments.
   */
  protected widen(): void {}

  protected toNullable(schema: JsonSchemaObject): JsonSchemaObject {
    return { ...schema, nullable: true };
  }

  protected override words(
    node: JsonSchemaObject,
    path: string,
    kept: readonly string[] = [],
    first: readonly string[] = [],
  ): Record<string, unknown> {
    const words = super.words(node, path, kept, first);
    return node.default === undefined ? words : { ...words, default: node.default };
  }

  protected lowerType(node: JsonSchemaObject, type: JsonType, path: string): JsonSchemaObject {
    if (type === "object") return this.#lowerObject(node, path);
    if (type === "array") return this.#lowerArray(node, path);
    if (type === "null") return alwaysNull(node);
    const bounded = type === "integer" ? withInclusiveLimits(node) : node;
    const values = "const" in node ? [node.const] : Array.isArray(node.enum) ? node.enum : undefined;
    if (values === undefined) return this.frame(bounded, type, path);
    if ("const" in node) this.note(path, "const", "rewritten", "Sent as an `enum` of one value.");
    const present = values.filter((value) => value !== null);
    // Gemini takes a list of choices for strings only, and no empty string among them.
    if (type === "string" && present.every((value) => typeof value === "string" && value !== "")) {
      return { ...this.frame(bounded, type, path), enum: present };
    }
    const keyword = values.length === 1 ? "const" : "enum";
    const remark = describeConstraint(keyword, values.length === 1 ? values[0] : values);
    const reason = "Gemini lists choices for non-empty strings only.";
    this.note(path, keyword, remark ? "described" : "dropped", reason);
    return this.frame(bounded, type, path, remark === undefined ? [] : [remark]);
  }

  #lowerObject(node: JsonSchemaObject, path: string): JsonSchemaObject {
    const properties = propertiesOf(node);
    const required = requiredOf(node).filter((key) => Object.hasOwn(properties, key));
    const unlisted = requiredOf(node).filter((key) => !Object.hasOwn(properties, key));
    if (unlisted.length > 0)
      this.note(path, "required", "described", "Gemini takes only listed properties as required.");
    const remarks = unlisted.length > 0 ? [`also required: ${unlisted.join(", ")}`] : [];
    const lowered = Object.entries(properties).map(([key, value]) => [
      key,
      this.lower(value, pointer(path, "properties", key)),
    ]);
    return {
      ...this.frame(node, "object", path, remarks),
      ...(lowered.length > 0 && { properties: Object.fromEntries(lowered) }),
      ...(required.length > 0 && { required }),
    };
  }

  #lowerArray(node: JsonSchemaObject, path: string): JsonSchemaObject {
    const itemsPath = pointer(path, "items");
    if (!Array.isArray(node.prefixItems)) {
      return { ...this.frame(node, "array", path), items: this.lower(schemaFrom(node.items), itemsPath) };
    }
    const { places, order } = this.places(node.prefixItems, path);
    const beyond = isRecord(node.items) ? [this.lower(node.items, itemsPath)] : [];
    const isClosed = beyond.length === 0 && node.items !== true;
    return {
      ...(isClosed && { minItems: places.length, maxItems: places.length }),
      ...this.frame(node, "array", path, [order]),
      items: this.unite([...places, ...beyond], {}, path),
    };
  }

  /** Gemini takes no field beside `anyOf`, so each branch repeats the outer description. */
  protected unite(
    branches: readonly JsonSchemaObject[],
    annotations: JsonSchemaObject,
    path: string,
  ): JsonSchemaObject {
    const flat = branches.flatMap((branch) => (Array.isArray(branch.anyOf) ? branch.anyOf : [branch]));
    const nullable = flat.some((branch) => branch.nullable === true) ? { nullable: true } : {};
    const all = joinEnums(
      distinctJson(
        flat.filter((branch) => !isNull(branch)).map(({ nullable: _nullable, ...branch }) => branch),
      ),
    );
    if (all.length === 0) return alwaysNull(annotations);
    if (all.length > 1) {
      const { title: _title, description, ...further } = annotations;
      const outer = withRemarks(description, this.remarks(further, ["default"], path));
      const said = (branch: JsonSchemaObject) => joinDescriptions(outer, branch.description);
      return { anyOf: all.map((branch) => ({ ...branch, ...said(branch), ...nullable })) };
    }
    const only = all[0]!;
    const own = this.words(annotations, path);
    return { ...only, ...own, ...joinDescriptions(own.description, only.description), ...nullable };
  }
}

/** For whole numbers, an exclusive bound is the inclusive bound next to it. */
function withInclusiveLimits(node: JsonSchemaObject): JsonSchemaObject {
  const { exclusiveMinimum: above, exclusiveMaximum: below, ...limits }: Record<string, unknown> = node;
  if (Number.isInteger(above))
    limits.minimum = Math.max(Number(above) + 1, Number(limits.minimum ?? -Infinity));
  else if (above !== undefined) limits.exclusiveMinimum = above;
  if (Number.isInteger(below))
    limits.maximum = Math.min(Number(below) - 1, Number(limits.maximum ?? Infinity));
  else if (below !== undefined) limits.exclusiveMaximum = below;
  return limits;
}

function cutReference(siblings: JsonSchemaObject, reference: string, target: JsonSchema): JsonSchemaObject {
  const types = isRecord(target) ? typesOf(target) : undefined;
  const type = types?.find((candidate) => candidate !== "null") ?? "object";
  const name = reference === "#" ? "the whole" : (reference.split("/").at(-1) ?? reference);
  const written = typeof siblings.description === "string" ? siblings : isRecord(target) ? target : {};
  return {
    type,
    description: withRemarks(written.description, [`same shape as ${name}`]),
    ...(type === "array" && { items: { type: "object" } }),
    ...(types?.includes("null") && { nullable: true }),
  };
}

/** Joins branches that are only string enums into one. */
function joinEnums(branches: readonly JsonSchemaObject[]): readonly JsonSchemaObject[] {
  const isList = (branch: JsonSchemaObject) =>
    branch.type === "string" && Array.isArray(branch.enum) && Object.keys(branch).length === 2;
  const lists = branches.filter(isList);
  if (lists.length < 2) return branches;
  const values = distinctJson(lists.flatMap((branch) => listOf(branch.enum)));
  return [{ type: "string", enum: values }, ...branches.filter((branch) => !isList(branch))];
}

/** Gemini has no type for `null` alone. */
function alwaysNull(node: JsonSchemaObject): JsonSchemaObject {
  return { type: "string", nullable: true, description: withRemarks(node.description, ["always null"]) };
}

function isNull(schema: JsonSchemaObject): boolean {
  return schema.nullable === true && String(schema.description).endsWith("(always null)");
}

function joinDescriptions(outer: unknown, inner: unknown): { description?: string } {
  const parts = [outer, inner].filter((part) => typeof part === "string" && part !== "");
  return parts.length === 0 ? {} : { description: [...new Set(parts)].join(" ") };
}
