import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { JsonSchemaObject } from "@toolrack/core";
import type {
  DefinitionNode,
  DocumentNode,
  FragmentDefinitionNode,
  GraphQLInputType,
  GraphQLSchema,
  IntrospectionQuery,
  OperationDefinitionNode,
} from "graphql";
import { parseJson } from "../access/index.ts";
import { asRecord, isRecord, reasonOf } from "../helpers/index.ts";
import { type ApiSettings, type ApiTool, type DescribedSignIn, exchange, fetcher } from "./api.ts";
import { forgetTokens, sign } from "./credentials.ts";
import { nameOf, SpecError } from "./document.ts";
import type { Skipped } from "./operations.ts";
import type { ApiResult } from "./response.ts";

type Graphql = typeof import("graphql");

/** An operation of a document, ready to be sent. */
interface GraphqlOperation {
  readonly name: string;
  readonly kind: "query" | "mutation";
  readonly description: string;
  /** The text of the operation with the fragments that it uses. */
  readonly query: string;
  readonly inputSchema: JsonSchemaObject;
}

/** Documents of one API, and bytes of one of them. */
const MOST_DOCUMENTS = 1_000;
const LONGEST_DOCUMENT = 1024 * 1024;

/**
 * A GraphQL API. Its tools are the operations that people wrote into documents, one each: the variables are the arguments.
 * The whole schema is offered to nobody.
 */
export class GraphqlApi {
  readonly title: string;
  readonly origin: string;
  readonly description = "";
  readonly version = "GraphQL";
  readonly problems: readonly string[] = [];
  readonly missingCredentials: readonly string[] = [];
  readonly skipped: readonly Skipped[];
  readonly files: readonly string[];
  readonly folders: readonly string[];
  readonly #settings: ApiSettings;
  readonly #endpoint: URL;
  readonly #operations: ReadonlyMap<string, GraphqlOperation>;

  private constructor(settings: ApiSettings, endpoint: URL, documents: string, found: Found) {
    this.#settings = settings;
    this.#endpoint = endpoint;
    this.#operations = new Map(found.operations.map((operation) => [operation.name, operation]));
    this.title = endpoint.host;
    this.origin = endpoint.origin;
    this.skipped = found.skipped;
    this.folders = [documents];
    this.files = settings.spec.kind === "file" ? [settings.spec.path] : [];
  }

  /** Reads the schema and the documents. Throws `SpecError` when the schema cannot be used. */
  static async open(settings: ApiSettings, documents: string, signal: AbortSignal): Promise<GraphqlApi> {
    const { spec, baseUrl } = settings;
    const endpoint = URL.parse(baseUrl ?? (spec.kind === "address" ? spec.url.href : ""));
    if (endpoint === null)
      throw new SpecError('A GraphQL API whose schema is a file needs its address. Write it as "baseUrl".');
    const graphql = await import("graphql");
    const schema = await readSchema(graphql, settings, endpoint, signal);
    const found = await readOperations(graphql, schema, documents, settings.isReadOnly);
    return new GraphqlApi(settings, endpoint, documents, found);
  }

  /** Undefined when its entry asks for no sign-in of a person. */
  get signIn(): DescribedSignIn | undefined {
    const isAsked = [...this.#settings.credentials.values()].some(({ kind }) => kind === "person");
    return isAsked ? { server: this.origin } : undefined;
  }

  get tools(): ApiTool[] {
    return [...this.#operations.values()].map(({ name, kind, description, inputSchema, query }) => ({
      name,
      description,
      inputSchema,
      annotations: {
        readOnlyHint: kind === "query",
        destructiveHint: false,
        idempotentHint: kind === "query",
        openWorldHint: true,
      },
      _meta: {
        "toolrack/api": {
          method: kind,
          path: this.#endpoint.pathname,
          server: this.#endpoint.origin,
          // What is asked for is part of what a person approves.
          document: createHash("sha256").update(query).digest("hex").slice(0, 32),
          tags: [kind],
        },
      },
    }));
  }

  /** Calls an operation. Errors of the API are a result with its own words. */
  async call(name: string, args: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ApiResult> {
    const operation = this.#operations.get(name);
    if (operation === undefined) throw new Error(`The API has no operation "${name}".`);
    const { query, kind } = operation;
    const body = JSON.stringify({ query, operationName: name, variables: args });
    const { status, answer, text } = await ask(this.#settings, this.#endpoint, body, signal);
    const { data, errors } = asRecord(answer);
    const said = Array.isArray(errors) ? errors.map((one) => String(asRecord(one).message)).join("\n") : "";
    if (isRecord(data) && said === "") {
      return { content: [{ type: "text", text: JSON.stringify(data) }], structuredContent: data };
    }
    const words = said === "" ? `The ${kind} ${name} answered ${status}: ${text.slice(0, 2_000)}` : said;
    const rest = isRecord(data) ? [{ type: "text", text: JSON.stringify(data) }] : [];
    return { content: [{ type: "text", text: words }, ...rest], isError: true };
  }

  /** Nothing is kept open between calls. */
  close(): void {}
}

/** The answer of the API to a body in JSON. */
async function ask(
  settings: ApiSettings,
  url: URL,
  body: string,
  signal: AbortSignal,
  tries = 1,
): Promise<{ readonly status: number; readonly answer: unknown; readonly text: string }> {
  const { rules, credentials, learn = () => {} } = settings;
  const usual = { accept: "application/json", "content-type": "application/json", "user-agent": "toolrack" };
  const request = { url, headers: { ...usual, ...settings.headers } };
  // A schema of GraphQL names no ways to sign, so what the entry has is sent as a bearer's token.
  const names = [...credentials.keys()];
  const needs = [new Map(names.map((name) => [name, []]))];
  const schemes = new Map(names.map((name) => [name, { kind: "oauth2" } as const]));
  const { used, ...signed } = await sign(request, needs, schemes, credentials, { rules, signal, learn });
  const { opened, part } = await exchange({
    ...{ method: "POST", body, rules, signal, followRedirects: false, ownHeaders: [] },
    ...signed,
  });
  if (tries === 1 && opened.status === 401 && forgetTokens(used))
    return ask(settings, url, body, signal, tries + 1);
  const text = part.bytes.toString("utf8");
  return { status: opened.status, answer: parseJson(text), text };
}

/** Reads the schema from a file in the schema language, or asks the API itself for it. */
async function readSchema(
  graphql: Graphql,
  settings: ApiSettings,
  endpoint: URL,
  signal: AbortSignal,
): Promise<GraphQLSchema> {
  const { spec } = settings;
  try {
    if (spec.kind === "file") {
      const text = await readFile(spec.path, "utf8");
      return /^\s*\{/.test(text) ? clientSchema(graphql, parseJson(text)) : graphql.buildSchema(text);
    }
    if (/\.(?:graphqls?|gql)$/.test(spec.url.pathname))
      return graphql.buildSchema(await fetcher(settings, signal)(spec.url, 16 * LONGEST_DOCUMENT));
    const body = JSON.stringify({ query: graphql.getIntrospectionQuery() });
    // A person can sign in only where the schema is known, so it is asked for without that.
    const credentials = new Map([...settings.credentials].filter(([, { kind }]) => kind !== "person"));
    const { status, answer } = await ask({ ...settings, credentials }, endpoint, body, signal);
    if (!isRecord(asRecord(answer).data))
      throw new Error(`it answered ${status} when it was asked for its schema`);
    return clientSchema(graphql, answer);
  } catch (thrown) {
    throw new SpecError(`The schema at ${nameOf(spec)} cannot be used: ${reasonOf(thrown)}`);
  }
}

/** The schema in an answer to the introspection query. Some programs keep only its `data`. */
function clientSchema(graphql: Graphql, answer: unknown): GraphQLSchema {
  const { data = answer } = asRecord(answer);
  // `buildClientSchema` checks the parts that it uses.
  return graphql.buildClientSchema(data as IntrospectionQuery);
}

interface Found {
  readonly operations: readonly GraphqlOperation[];
  readonly skipped: readonly Skipped[];
}

/** Reads the operations of all documents. One that does not fit the schema is skipped, with the reason. */
async function readOperations(
  graphql: Graphql,
  schema: GraphQLSchema,
  folder: string,
  isReadOnly: boolean,
): Promise<Found> {
  const skipped: Skipped[] = [];
  const operations: GraphqlOperation[] = [];
  const names = await readdir(folder).catch((error: Error) => {
    throw new SpecError(`The folder of its documents cannot be read: ${error.message}`);
  });
  const files = names.filter((name) => /\.(?:graphql|gql)$/.test(name)).sort();
  const written: { readonly file: string; readonly document: DocumentNode }[] = [];
  for (const file of files.slice(0, MOST_DOCUMENTS)) {
    try {
      const text = await readFile(join(folder, file), "utf8");
      if (text.length > LONGEST_DOCUMENT) throw new Error("it is longer than 1 MiB");
      written.push({ file, document: graphql.parse(text, { maxTokens: 100_000 }) });
    } catch (thrown) {
      skipped.push({ name: file, reason: `It cannot be read: ${reasonOf(thrown)}.` });
    }
  }
  // A fragment may stand in a document of its own.
  const fragments = new Map(
    written.flatMap(({ document }) =>
      document.definitions.filter(isFragment).map((one) => [one.name.value, one]),
    ),
  );
  for (const { file, document } of written) {
    for (const node of document.definitions.filter(isOperation)) {
      const name = node.name?.value ?? file.replace(/\.\w+$/, "");
      const found = toOperation(graphql, schema, { name, node, fragments });
      const isTwice = operations.some((other) => other.name === name);
      if (typeof found === "string") skipped.push({ name, reason: `${file}: ${found}` });
      else if (isTwice) skipped.push({ name, reason: `${file}: Another operation has this name.` });
      else if (found.kind === "query" || !isReadOnly) operations.push(found);
    }
  }
  return { operations, skipped };
}

function isFragment(node: DefinitionNode): node is FragmentDefinitionNode {
  return node.kind === "FragmentDefinition";
}

function isOperation(node: DefinitionNode): node is OperationDefinitionNode {
  return node.kind === "OperationDefinition";
}

interface Written {
  readonly name: string;
  readonly node: OperationDefinitionNode;
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
}

/** The operation, or why it cannot be offered. */
function toOperation(graphql: Graphql, schema: GraphQLSchema, written: Written): GraphqlOperation | string {
  const { name, node, fragments } = written;
  if (node.operation === "subscription") return "A subscription has no single answer, so it is no tool.";
  const named = { ...node, name: { kind: graphql.Kind.NAME, value: name } } as const;
  const document = {
    kind: graphql.Kind.DOCUMENT,
    definitions: [named, ...usedFragments(graphql, node, fragments)],
  } as const;
  const [error] = graphql.validate(schema, document);
  if (error !== undefined) {
    const [place] = error.locations ?? [];
    return `${place === undefined ? "" : `line ${place.line}: `}${error.message}`;
  }
  const properties: Record<string, JsonSchemaObject> = {};
  const required: string[] = [];
  const definitions = new Map<string, JsonSchemaObject>();
  for (const { variable, type, defaultValue } of node.variableDefinitions ?? []) {
    const known = graphql.typeFromAST(schema, type);
    if (known === undefined || !graphql.isInputType(known))
      return `The type of $${variable.name.value} is not known.`;
    const own = schemaOf(graphql, known, definitions);
    const usual = defaultValue === undefined ? undefined : graphql.valueFromASTUntyped(defaultValue);
    properties[variable.name.value] = usual === undefined ? own : { ...own, default: usual };
    if (graphql.isNonNullType(known) && defaultValue === undefined) required.push(variable.name.value);
  }
  const comments = commentsBefore(node);
  return {
    name,
    kind: node.operation,
    description: comments === "" ? `The GraphQL ${node.operation} ${name}.` : comments,
    query: graphql.print(document),
    inputSchema: {
      type: "object",
      properties,
      ...(required.length > 0 && { required }),
      additionalProperties: false,
      ...(definitions.size > 0 && { $defs: Object.fromEntries(definitions) }),
    },
  };
}

/** The fragments that an operation uses, also those that its fragments use. */
function usedFragments(
  graphql: Graphql,
  node: OperationDefinitionNode,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): FragmentDefinitionNode[] {
  const used = new Map<string, FragmentDefinitionNode>();
  const waiting: (OperationDefinitionNode | FragmentDefinitionNode)[] = [node];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    graphql.visit(next, {
      FragmentSpread({ name }) {
        const found = fragments.get(name.value);
        if (found === undefined || used.has(name.value)) return;
        used.set(name.value, found);
        waiting.push(found);
      },
    });
  }
  return [...used.values()];
}

/** The comment lines right above an operation, which say what it is for. */
function commentsBefore({ loc }: OperationDefinitionNode): string {
  const lines: string[] = [];
  for (let token = loc?.startToken.prev; token?.kind === "Comment"; token = token.prev)
    lines.unshift(token.value.trim());
  return lines.join(" ").trim();
}

const scalars: Readonly<Record<string, JsonSchemaObject>> = {
  Int: { type: "integer" },
  Float: { type: "number" },
  String: { type: "string" },
  Boolean: { type: "boolean" },
  ID: { type: "string" },
};

/** The JSON Schema of an input type. Named types with fields stand under `$defs`, because they may refer to themselves. */
function schemaOf(
  graphql: Graphql,
  type: GraphQLInputType,
  definitions: Map<string, JsonSchemaObject>,
): JsonSchemaObject {
  if (graphql.isNonNullType(type)) return withoutNull(schemaOf(graphql, type.ofType, definitions));
  if (graphql.isListType(type))
    return { type: ["array", "null"], items: schemaOf(graphql, type.ofType, definitions) };
  if (graphql.isEnumType(type)) return { enum: [...type.getValues().map(({ name }) => name), null] };
  if (graphql.isScalarType(type)) {
    const known = scalars[type.name];
    return known === undefined
      ? { description: type.description ?? `A ${type.name}.` }
      : { ...known, type: [String(known.type), "null"] };
  }
  if (!definitions.has(type.name)) {
    definitions.set(type.name, {});
    const fields = Object.values(type.getFields());
    const required = fields.filter((field) => graphql.isRequiredInputField(field)).map(({ name }) => name);
    const properties = fields.map(({ name, type: inner, description }) => [
      name,
      { ...schemaOf(graphql, inner, definitions), ...(description && { description }) },
    ]);
    definitions.set(type.name, {
      type: "object",
      properties: Object.fromEntries(properties),
      ...(required.length > 0 && { required }),
      additionalProperties: false,
    });
  }
  return { anyOf: [{ $ref: `#/$defs/${type.name}` }, { type: "null" }] };
}

function withoutNull(schema: JsonSchemaObject): JsonSchemaObject {
  const { type, anyOf, enum: values } = schema;
  if (Array.isArray(type)) return { ...schema, type: type[0] };
  if (Array.isArray(values)) return { ...schema, enum: values.filter((value) => value !== null) };
  return Array.isArray(anyOf) && isRecord(anyOf[0]) ? anyOf[0] : schema;
}
