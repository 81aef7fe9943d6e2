import {
  type ChatCompletionRequest,
  type FixtureOpts,
  type FixtureResponse,
  LLMock,
} from "@copilotkit/aimock";
import { Tool, type ToolInfo } from "@toolrack/core";
import OpenAI from "openai";
import { z } from "zod";
import { issueToken } from "../../access/tokens.ts";
import { Hold, type StreamEvent, StreamReader } from "../../http/server.fixture.ts";
import { type Serving, serve } from "../../rack/serve.ts";
import type { StoredToken } from "../../store/tokens.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";

/** Tests read JSON answers without declaring their shape. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
type Json = any;

export type Script = (
  request: ChatCompletionRequest,
  asked: number,
) => FixtureResponse | Promise<FixtureResponse>;

export interface ChatRackOptions {
  readonly chat?: Readonly<Record<string, unknown>>;
  /** Further members of the provider's entry in the config. */
  readonly provider?: Readonly<Record<string, unknown>>;
  /** Further members of the config. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly tools?: readonly ToolInfo[];
  readonly files?: Readonly<Record<string, string>>;
}

/** A real server on a real workspace, whose model is a script. */
export class ChatRack {
  readonly mock: LLMock;
  readonly workspace: TemporaryWorkspace;
  readonly hold = new Hold();
  /** Name and input of every call that ran, in the order in which the calls began. */
  readonly ran: Json[] = [];
  readonly #tools: readonly ToolInfo[];
  #serving: Serving | undefined;
  #asked = 0;

  private constructor(mock: LLMock, workspace: TemporaryWorkspace, tools: readonly ToolInfo[]) {
    this.mock = mock;
    this.workspace = workspace;
    this.#tools = tools;
  }

  static async start(options: ChatRackOptions = {}): Promise<ChatRack> {
    const { chat = {}, provider = {}, config: more = {}, tools = [], files = {} } = options;
    const mock = new LLMock({ port: 0, journalMaxEntries: 0 });
    await mock.start();
    const config = {
      builtins: false,
      server: { port: 0 },
      providers: {
        scripted: {
          baseURL: `${mock.url}/v1`,
          apiKey: "key-of-the-provider",
          models: ["model-a"],
          ...provider,
        },
      },
      chat,
      ...more,
    };
    const workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": `export default ${JSON.stringify(config)};`,
      ...files,
    });
    const rack = new ChatRack(mock, workspace, tools);
    await rack.open();
    return rack;
  }

  get serving(): Serving {
    return this.#serving!;
  }

  /** Starts the server. Starts it again after it was closed. */
  async open(): Promise<void> {
    const say = (...values: unknown[]) => void this.workspace.messages.push(values.map(String).join(" "));
    const logger = { debug: say, info: say, warn: say, error: say };
    this.#serving = await serve(this.workspace.directory, { logger, port: 0 });
    for (const tool of [...this.#usualTools(), ...this.#tools]) this.serving.app.registry.register(tool);
  }

  /** Answers every request to the model with the script, which is given the number of earlier requests. */
  script(script: Script, options: FixtureOpts = {}): void {
    this.#asked = 0;
    this.mock.clearFixtures();
    this.mock.on({ predicate: () => true }, (request) => script(request, this.#asked++), options);
  }

  /** The requests that the model was sent, oldest first. */
  get requests(): Json[] {
    return this.mock.getRequests().map(({ body }) => body);
  }

  client(token = this.serving.token): OpenAI {
    return new OpenAI({ baseURL: `${this.serving.url}/v1`, apiKey: token });
  }

  async issue(scopes: StoredToken["scopes"]): Promise<string> {
    return (await issueToken(this.serving.store.tokens, { name: "tester", scopes })).token;
  }

  fetch(
    path: string,
    options: {
      method?: string;
      body?: unknown;
      headers?: Record<string, string>;
      token?: string;
      signal?: AbortSignal;
    } = {},
  ) {
    const {
      method = options.body === undefined ? "GET" : "POST",
      body,
      headers = {},
      token,
      signal,
    } = options;
    return fetch(this.serving.url + path, {
      method,
      headers: {
        authorization: `Bearer ${token ?? this.serving.token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async ask(path: string, options: Parameters<ChatRack["fetch"]>[1] = {}): Promise<Json> {
    const response = await this.fetch(path, options);
    const answer: Json = await response.json();
    return { status: response.status, ...answer };
  }

  async session(wanted: Record<string, unknown> = {}): Promise<string> {
    return (await this.ask("/api/chat/sessions", { body: wanted })).id;
  }

  /** Sends a message and resolves to the whole answer. */
  say(session: string, content: unknown): Promise<Json> {
    return this.ask(`/api/chat/sessions/${session}/messages`, { body: { content } });
  }

  /** Sends a message and returns a reader of the answer's events. */
  async stream(session: string, content: unknown): Promise<StreamReader> {
    const response = await this.fetch(`/api/chat/sessions/${session}/messages`, {
      body: { content },
      headers: { accept: "text/event-stream" },
    });
    return new StreamReader(response);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.serving.close();
    await this.mock.stop();
    await this.workspace[Symbol.asyncDispose]();
  }

  #usualTools(): ToolInfo[] {
    const note = (name: string, input: unknown) => void this.ran.push({ name, input });
    return [
      Tool.define({
        name: "add",
        description: "Adds two numbers.",
        parameters: z.object({ a: z.number(), b: z.number() }),
        metadata: { readOnly: true },
        execute: async ({ input }) => {
          note("add", input);
          return { sum: input.a + input.b };
        },
      }),
      Tool.define({
        name: "weather",
        displayName: "Weather/天气",
        description: "Tells the weather of a city.",
        parameters: z.object({ city: z.string() }),
        metadata: { readOnly: true },
        execute: async ({ input, signal }) => {
          note("weather", input);
          if (input.city.startsWith("hold")) await this.hold.wait(input.city, signal);
          return `${input.city}: 21 °C`;
        },
      }),
      Tool.define({
        name: "write",
        description: "Writes something.",
        parameters: z.object({ text: z.string() }),
        execute: async ({ input, signal }) => {
          note("write", input);
          if (input.text.startsWith("hold")) await this.hold.wait(input.text, signal);
          return `wrote ${input.text}`;
        },
      }),
      Tool.define({
        name: "wipe",
        description: "Deletes everything.",
        parameters: z.object({ what: z.string() }),
        metadata: { dangerous: true },
        execute: async ({ input }) => {
          note("wipe", input);
          return `wiped ${input.what}`;
        },
      }),
      Tool.define({
        name: "photo",
        description: "Takes a photo.",
        parameters: z.object({}),
        metadata: { readOnly: true },
        execute: async () => ({
          content: [
            { type: "text", text: "a photo" },
            { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" },
          ],
        }),
      }),
      Tool.define({
        name: "long",
        description: "Answers with a long text.",
        parameters: z.object({ size: z.number() }),
        metadata: { readOnly: true },
        execute: async ({ input }) =>
          Array.from({ length: input.size / 10 }, (_, at) => `${at}`.padStart(9, "-")).join("|"),
      }),
    ];
  }
}

/** The messages of a request that answer calls. */
export function answersIn(request: Json): Json[] {
  return request.messages.filter(({ role }: Json) => role === "tool");
}

export function called(...calls: [name: string, args: unknown, id?: string][]): FixtureResponse {
  return {
    toolCalls: calls.map(([name, args, id]) => ({
      name,
      arguments: typeof args === "string" ? args : JSON.stringify(args),
      ...(id === undefined ? {} : { id }),
    })),
  };
}

export type { StreamEvent };
