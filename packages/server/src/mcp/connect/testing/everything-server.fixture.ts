import { randomBytes, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import {
  createMcpHandler,
  createRequestStateCodec,
  inputRequired,
  isLegacyRequest,
  ProtocolError,
  ResourceNotFoundError,
  Server,
  type ServerContext,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

/**
 * A server with everything that the official conformance suite calls, made with the SDK, for both eras. Run as a program,
 * it serves over stdio; `EverythingServer` serves over HTTP.
 */

type Result = Record<string, unknown>;
type Run = (context: ServerContext, input: Record<string, unknown>) => Result | Promise<Result>;
type Asked = Parameters<typeof inputRequired>[0]["inputRequests"];

interface ToolRow {
  readonly run: Run;
  readonly schema?: object;
}

const picture =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const sound = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==";
const PAUSE = 50;

const text = (value: string) => ({ type: "text", text: value });
const image = { type: "image", data: picture, mimeType: "image/png" };
const embedded = (uri: string, mimeType: string, value: string) => ({
  type: "resource",
  resource: { uri, mimeType, text: value },
});
const answering =
  (...content: object[]): Run =>
  () => ({ content });
const said = (value: unknown) => ({
  content: [text(typeof value === "string" ? value : JSON.stringify(value))],
});

const states = createRequestStateCodec({ key: randomBytes(32) });

const form = (message: string, properties: object, required: readonly string[] = []) =>
  inputRequired.elicit({ message, requestedSchema: { type: "object", properties, required } } as never);
const field = (message: string, name: string, type = "string") => form(message, { [name]: { type } }, [name]);
const sample = (prompt: string) =>
  inputRequired.createMessage({
    messages: [{ role: "user", content: { type: "text", text: prompt } }],
    maxTokens: 100,
  });

/** A tool that asks all questions at once, and then answers with what it was told. */
const asking =
  (ask: (input: Record<string, unknown>, context: ServerContext) => NonNullable<Asked>, say = told): Run =>
  async (context, input) => {
    const inputRequests = ask(input, context);
    const { inputResponses } = context.mcpReq;
    if (Object.keys(inputRequests).every((key) => inputResponses?.[key] !== undefined))
      return said(say(inputResponses ?? {}));
    return inputRequired({ inputRequests, requestState: await states.mint({ asked: true }) });
  };

function told(answers: Record<string, unknown>): string {
  return `Answered with ${JSON.stringify(answers)}, state-ok`;
}

const twoRounds: Run = async ({ mcpReq }) => {
  const { step1, step2 } = mcpReq.inputResponses ?? {};
  const { first } = mcpReq.requestState<{ first?: unknown }>() ?? {};
  if (step2 !== undefined) return said([first, step2]);
  if (step1 === undefined)
    return inputRequired({
      inputRequests: { step1: field("Step 1: What is your name?", "name") },
      requestState: await states.mint({ round: 1 }),
    });
  return inputRequired({
    inputRequests: { step2: field("Step 2: What is your favorite color?", "color") },
    requestState: await states.mint({ first: step1 }),
  });
};

/** Asks twice under one key. */
const sameKey: Run = async ({ mcpReq }) => {
  const { round = 0 } = mcpReq.requestState<{ round?: number }>() ?? {};
  if (round === 2) return said("Asked twice.");
  return inputRequired({
    inputRequests: { again: field(`Round ${round + 1}?`, "name") },
    requestState: await states.mint({ round: round + 1 }),
  });
};

function capabilitiesOf({ mcpReq }: ServerContext): Record<string, unknown> {
  const envelope: Result = mcpReq.envelope ?? {};
  // The SDK has checked that it is an object.
  return (envelope["io.modelcontextprotocol/clientCapabilities"] ?? {}) as Result;
}

const report: Run = async ({ mcpReq }) => {
  const progressToken = mcpReq._meta?.progressToken ?? 0;
  for (const progress of [0, 50, 100]) {
    await mcpReq.notify({
      method: "notifications/progress",
      params: { progressToken, progress, total: 100 },
    });
    await wait(PAUSE);
  }
  return said(String(progressToken));
};

const log: Run = async ({ mcpReq }) => {
  for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
    await mcpReq.log("info", data);
    await wait(PAUSE);
  }
  return said("Logged.");
};

const options = ["option1", "option2", "option3"];
const titled = ["First", "Second", "Third"].map((title, at) => ({ const: `value${at + 1}`, title }));
const texts = (...names: string[]) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
  required: names,
});
const completed = (answers: Record<string, unknown>) => `Elicitation completed: ${JSON.stringify(answers)}`;

const newSchema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

function toolsOf(changed: (list: "tools" | "prompts") => void): Readonly<Record<string, ToolRow>> {
  const changing = (list: "tools" | "prompts"): Run => {
    return () => {
      changed(list);
      return said("Changed.");
    };
  };
  const name = () => ({ user_name: field("What is your name?", "name") });
  const confirm = () => ({ confirm: field("Please confirm", "ok", "boolean") });
  const mixed = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}');
  return {
    test_simple_text: { run: answering(text("This is a simple text response for testing.")) },
    test_image_content: { run: answering(image) },
    test_audio_content: { run: answering({ type: "audio", data: sound, mimeType: "audio/wav" }) },
    test_embedded_resource: {
      run: answering(
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
      ),
    },
    test_multiple_content_types: { run: answering(text("Multiple content types test:"), image, mixed) },
    test_error_handling: {
      run: () => ({ ...said("This tool intentionally returns an error for testing"), isError: true }),
    },
    test_tool_with_progress: { run: report },
    test_tool_with_logging: { run: log },
    test_logging_tool: { run: log },
    test_trigger_tool_change: { run: changing("tools") },
    test_trigger_prompt_change: { run: changing("prompts") },
    test_sampling: {
      schema: texts("prompt"),
      run: asking(
        ({ prompt }) => ({ model: sample(String(prompt)) }),
        (answers) => `LLM response: ${JSON.stringify(answers.model)}`,
      ),
    },
    test_elicitation: {
      schema: texts("message"),
      run: asking(
        ({ message }) => ({
          user: form(String(message), { username: { type: "string" }, email: { type: "string" } }, [
            "username",
          ]),
        }),
        (answers) => `User response: ${JSON.stringify(answers.user)}`,
      ),
    },
    test_elicitation_sep1034_defaults: {
      run: asking(
        () => ({
          form: form("Please review and update the form fields with defaults", {
            name: { type: "string", default: "John Doe" },
            age: { type: "integer", default: 30 },
            score: { type: "number", default: 95.5 },
            status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
            verified: { type: "boolean", default: true },
          }),
        }),
        completed,
      ),
    },
    test_elicitation_sep1330_enums: {
      run: asking(
        () => ({
          form: form("Please select options from the enum fields", {
            untitledSingle: { type: "string", enum: options },
            titledSingle: { type: "string", oneOf: titled },
            legacyEnum: { type: "string", enum: ["opt1", "opt2"], enumNames: ["Option One", "Option Two"] },
            untitledMulti: { type: "array", items: { type: "string", enum: options } },
            titledMulti: { type: "array", items: { anyOf: titled } },
          }),
        }),
        completed,
      ),
    },
    test_streaming_elicitation: {
      run: async (context, input) => {
        if (context.mcpReq.inputResponses === undefined) await report(context, input);
        return asking(name)(context, input);
      },
    },
    test_missing_capability: { run: asking(() => ({ model: sample("Hello") })) },
    test_same_key: { run: sameKey },
    test_refusal: {
      schema: { type: "object", properties: { code: { type: "integer" } } },
      run: (_, { code }) => {
        throw new ProtocolError(Number(code), "No.", { why: "said so" });
      },
    },
    json_schema_2020_12_tool: { schema: newSchema, run: (_, input) => said(input) },
    test_x_mcp_header: {
      schema: {
        type: "object",
        properties: { region: { type: "string", "x-mcp-header": "Region" } },
        required: ["region"],
      },
      run: (_, input) => said(input),
    },
    test_input_required_result_elicitation: { run: asking(name) },
    test_input_required_result_sampling: {
      run: asking(() => ({ capital_question: sample("What is the capital of France?") })),
    },
    test_input_required_result_list_roots: {
      run: asking(() => ({ client_roots: inputRequired.listRoots() })),
    },
    test_input_required_result_request_state: { run: asking(confirm) },
    test_input_required_result_tampered_state: { run: asking(confirm) },
    test_input_required_result_multiple_inputs: {
      run: asking(() => ({
        ...name(),
        greeting: sample("Generate a greeting"),
        client_roots: inputRequired.listRoots(),
      })),
    },
    test_input_required_result_multi_round: { run: twoRounds },
    test_input_required_result_capabilities: {
      run: asking((_, context) => {
        const { elicitation, sampling } = capabilitiesOf(context);
        return {
          ...(elicitation === undefined ? {} : name()),
          ...(sampling === undefined ? {} : { greeting: sample("Generate a greeting") }),
        };
      }),
    },
  };
}

const argument = (name: string) => ({ name, description: `The ${name}`, required: true });
const user = (content: object) => ({ role: "user", content });
const described = (...messages: object[]) => ({ messages });

/** The prompts: their arguments, and what they answer with. */
const prompts: Readonly<Record<string, { readonly args?: readonly string[]; readonly run: Run }>> = {
  test_simple_prompt: { run: () => described(user(text("This is a simple prompt for testing."))) },
  test_prompt_with_arguments: {
    args: ["arg1", "arg2"],
    run: (_, { arg1, arg2 }) =>
      described(user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))),
  },
  test_prompt_with_embedded_resource: {
    args: ["resourceUri"],
    run: (_, { resourceUri }) =>
      described(
        user(embedded(String(resourceUri), "text/plain", "Embedded resource content for testing.")),
        user(text("Please process the embedded resource above.")),
      ),
  },
  test_prompt_with_image: {
    run: () => described(user(image), user(text("Please analyze the image above."))),
  },
  test_input_required_result_prompt: {
    run: async ({ mcpReq }) => {
      const { user_context } = mcpReq.inputResponses ?? {};
      if (user_context !== undefined)
        return described(user(text(`Use this: ${JSON.stringify(user_context)}`)));
      return inputRequired({
        inputRequests: { user_context: field("What context should the prompt use?", "context") },
        requestState: await states.mint({ asked: true }),
      });
    },
  },
};

const resources = [
  { uri: "test://static-text", name: "static-text", mimeType: "text/plain" },
  { uri: "test://static-binary", name: "static-binary", mimeType: "image/png" },
  { uri: "test://watched-resource", name: "watched-resource", mimeType: "text/plain" },
];

function read(uri: string): object {
  if (uri === "test://static-text")
    return { uri, mimeType: "text/plain", text: "This is the content of the static text resource." };
  if (uri === "test://static-binary") return { uri, mimeType: "image/png", blob: picture };
  if (uri === "test://watched-resource") return { uri, mimeType: "text/plain", text: "Watched" };
  const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? [];
  if (id === undefined) throw new ResourceNotFoundError(uri);
  const data = { id, templateTest: true, data: `Data for ID: ${id}` };
  return { uri, mimeType: "application/json", text: JSON.stringify(data) };
}

function makeServer(changed: (list: "tools" | "prompts") => void): Server {
  const tools = toolsOf(changed);
  const capabilities = {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    logging: {},
    completions: {},
  };
  const server = new Server(
    { name: "everything", version: "1.0.0" },
    { capabilities, requestState: { verify: states.verify } },
  );
  const nothing = { type: "object", properties: {} };
  // The tables above hold plain results; the types of the SDK name each kind of them.
  server.setRequestHandler("tools/list", () => ({
    tools: Object.entries(tools).map(([name, { schema = nothing }]) => {
      return { name, description: `The tool ${name}.`, inputSchema: schema } as never;
    }),
  }));
  server.setRequestHandler("tools/call", async ({ params: { name, arguments: input = {} } }, context) => {
    return (await tools[name]!.run(context, input)) as never;
  });
  server.setRequestHandler("prompts/list", () => ({
    prompts: Object.entries(prompts).map(([name, { args = [] }]) => {
      return { name, description: `The prompt ${name}.`, arguments: args.map(argument) };
    }),
  }));
  server.setRequestHandler("prompts/get", async ({ params: { name, arguments: input = {} } }, context) => {
    return (await prompts[name]!.run(context, input)) as never;
  });
  server.setRequestHandler("resources/list", () => ({ resources }));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template" }],
  }));
  server.setRequestHandler("resources/read", ({ params: { uri } }) => ({ contents: [read(uri)] }) as never);
  server.setRequestHandler("resources/subscribe", () => ({}));
  server.setRequestHandler("resources/unsubscribe", () => ({}));
  server.setRequestHandler("completion/complete", ({ params: { argument: typed } }) => ({
    completion: { values: ["paris", "park", "party"].filter((word) => word.startsWith(typed.value)) },
  }));
  return server;
}

/** Serves over HTTP: the stateless protocol, and the older one with sessions. */
export class EverythingServer {
  readonly url: string;
  readonly #close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  static async start(): Promise<EverythingServer> {
    const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
    const handler = createMcpHandler(
      () =>
        makeServer((list) =>
          list === "tools" ? handler.notify.toolsChanged() : handler.notify.promptsChanged(),
        ),
      { legacy: "reject" },
    );
    const serveLegacy = async (request: Request): Promise<Response> => {
      const id = request.headers.get("mcp-session-id");
      const known = id === null ? undefined : sessions.get(id);
      if (known !== undefined) return known.handleRequest(request);
      if (id !== null) return new Response(null, { status: 404 });
      const transport: WebStandardStreamableHTTPServerTransport =
        new WebStandardStreamableHTTPServerTransport({
          sessionIdGenerator: () => randomUUID(),
          onsessioninitialized: (session) => void sessions.set(session, transport),
          onsessionclosed: (session) => void sessions.delete(session),
        });
      const server = makeServer(
        (list) => void (list === "tools" ? server.sendToolListChanged() : server.sendPromptListChanged()),
      );
      await server.connect(transport);
      return transport.handleRequest(request);
    };
    const http = createServer(async (incoming, outgoing) => {
      const gone = new AbortController();
      outgoing.on("close", () => gone.abort());
      const request = toRequest(incoming, gone.signal);
      const isLegacy = await isLegacyRequest(request.clone());
      const response = await (isLegacy ? serveLegacy(request) : handler.fetch(request));
      outgoing.writeHead(response.status, Object.fromEntries(response.headers));
      outgoing.flushHeaders();
      if (response.body === null) return void outgoing.end();
      Readable.fromWeb(response.body as never)
        .on("error", () => outgoing.destroy())
        .pipe(outgoing);
    });
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    const { port } = http.address() as AddressInfo; // Only a server on a pipe has no port.
    return new EverythingServer(`http://127.0.0.1:${port}/mcp`, async () => {
      await handler.close();
      const closed = new Promise((resolve) => http.close(resolve));
      http.closeAllConnections();
      await closed;
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close();
  }
}

function toRequest(incoming: IncomingMessage, signal: AbortSignal): Request {
  const body = incoming.method === "POST" ? { body: Readable.toWeb(incoming), duplex: "half" } : {};
  const { method = "GET", headers } = incoming;
  // Node's own types of streams and headers fit what `fetch` takes, but not its types.
  return new Request(`http://127.0.0.1${incoming.url}`, { method, headers, signal, ...body } as RequestInit);
}

if (import.meta.main) serveStdio(() => makeServer(() => {}));
