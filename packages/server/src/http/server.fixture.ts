import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { compileSchema, type JsonSchemaObject, Tool, type ToolInfo } from "@toolrack/core";
import { z } from "zod";
import { issueToken } from "../access/tokens.ts";
import { ApprovalInbox } from "../calls/approvals/inbox.ts";
import type { ChatService } from "../chat/chat-service.ts";
import { chatExtension } from "../chat/routes/completions.ts";
import type { App, OpenOptions } from "../index.ts";
import { openStore, type Store } from "../store/store.ts";
import type { StoredToken } from "../store/tokens.ts";

import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type RunningServer, type ServerOptions, startServer } from "./server.ts";

export interface FixtureOptions extends Partial<Omit<ServerOptions, "app" | "store" | "logger">> {
  readonly files?: Readonly<Record<string, string>>;
  readonly tools?: readonly ToolInfo[];
  readonly open?: Partial<OpenOptions>;
  /** Whether dangerous tools wait for an answer over the API. */
  readonly inbox?: boolean;
  /** Makes further options of the server from the app and the store. */
  readonly prepare?: (
    app: App,
    store: Store,
  ) => Promise<Partial<ServerOptions> & { readonly chat?: ChatService }>;
  /** Replaces the real store by a wrapper around it. */
  readonly wrapStore?: (store: Store) => Store;
}

export interface Asked {
  readonly method?: string;
  readonly token?: string | null;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/** Tests read the members of JSON answers without checks. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
type Json = any;

/** A real server on a real workspace and a real store, on a port of its own. */
export class TestServer {
  readonly workspace: TemporaryWorkspace;
  readonly app: App;
  readonly store: Store;
  readonly server: RunningServer;

  private constructor(workspace: TemporaryWorkspace, app: App, store: Store, server: RunningServer) {
    this.workspace = workspace;
    this.app = app;
    this.store = store;
    this.server = server;
  }

  static async start(options: FixtureOptions = {}): Promise<TestServer> {
    const {
      files = {},
      tools = [],
      open = {},
      inbox = false,
      wrapStore = (store) => store,
      prepare,
      ...settings
    } = options;
    const workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      ...files,
    });
    const store = wrapStore(await openStore({ directory: join(workspace.directory, ".toolrack") }));
    const say = (...values: unknown[]) => void workspace.messages.push(values.join(" "));
    const logger = { debug: say, info: say, warn: say, error: say };
    let opened: App | undefined;
    const viaOf = (callId: string) => opened?.book.get(callId)?.via;
    const approvals = await ApprovalInbox.open({ store, logger, viaOf });
    const app = await workspace.open({ store, ...(inbox ? { approval: approvals.policy } : {}), ...open });
    opened = app;
    for (const tool of tools) app.registry.register(tool);
    const { chat, ...prepared } = (await prepare?.(app, store)) ?? { chat: undefined };
    const starting = startServer({
      app,
      store,
      approvals,
      port: 0,
      logger,
      ...settings,
      extensions: [chatExtension(chat)],
      ...prepared,
    });
    const server = await starting.catch(async (error) => {
      await store.close();
      await workspace[Symbol.asyncDispose]();
      throw error;
    });
    return new TestServer(workspace, app, store, server);
  }

  get port(): number {
    return Number(new URL(this.server.url).port);
  }

  async issue(
    scopes: StoredToken["scopes"],
    more: { name?: string; expiresAt?: number } = {},
  ): Promise<string> {
    const { token } = await issueToken(this.store.tokens, { name: "tester", scopes, ...more });
    return token;
  }

  fetch(path: string, asked: Asked = {}): Promise<Response> {
    const { token = this.server.token, headers = {}, body, ...rest } = asked;
    return fetch(this.server.url + path, {
      ...rest,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
  }

  /** Sends a request and returns the JSON answer, after checking it against `/openapi.json`. */
  async ask(path: string, asked: Asked = {}): Promise<{ status: number; body: Json; headers: Headers }> {
    const response = await this.fetch(path, asked);
    const body: Json = await response.json();
    await this.#checkDescribed(asked.method ?? "GET", path, response, body);
    return { status: response.status, body, headers: response.headers };
  }

  call(name: string, input?: unknown, more: Record<string, unknown> = {}, asked: Asked = {}) {
    return this.ask(`/api/tools/${name}/calls`, {
      method: "POST",
      body: { ...(input === undefined ? {} : { arguments: input }), ...more },
      ...asked,
    });
  }

  /** Sends a request with headers that `fetch` does not let a program set. */
  async raw(
    path: string,
    headers: Record<string, string>,
    method = "GET",
  ): Promise<{ status: number; body: Json; headers: IncomingMessage["headers"] }> {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      httpRequest({ port: this.port, host: "127.0.0.1", path, method, headers, agent: false }, resolve)
        .on("error", reject)
        .end();
    });
    const text = await textOf(answer);
    return {
      status: answer.statusCode!,
      body: text === "" ? undefined : JSON.parse(text),
      headers: answer.headers,
    };
  }

  /** Opens a TCP connection. `closed` resolves with all text that was received. */
  socket(): { socket: Socket; closed: Promise<string> } {
    const socket = connect({ port: this.port, host: "127.0.0.1", allowHalfOpen: true });
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.on("end", () => socket.end());
    socket.on("error", () => {});
    return { socket, closed: new Promise((resolve) => socket.on("close", () => resolve(text))) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.close();
    await this.store.close();
    await this.workspace[Symbol.asyncDispose]();
  }

  async #checkDescribed(method: string, path: string, response: Response, body: unknown): Promise<void> {
    const document: Json = await (await this.fetch("/openapi.json")).json();
    const at = path.split("?")[0]!;
    const route = Object.keys(document.paths).find((known) =>
      new RegExp(`^${known.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(at),
    );
    const described = document.paths[route ?? ""]?.[method.toLowerCase()]?.responses[response.status];
    if (described === undefined) {
      if ([404, 405].includes(response.status)) return;
      throw new Error(`${method} ${path} answered ${response.status}, which its description does not know.`);
    }
    const { schema } = described.content["application/json"];
    const problem = await misfit(schema, document, body);
    if (problem !== undefined) throw new Error(`${method} ${path}: ${problem}`);
  }
}

async function misfit(schema: JsonSchemaObject, document: Json, body: unknown): Promise<string | undefined> {
  const wrapped = { ...schema, components: document.components };
  const outcome = await compileSchema(wrapped).validate(body);
  return outcome.ok ? undefined : JSON.stringify(outcome.issues);
}

export async function textOf(stream: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of stream) text += chunk;
  return text;
}

export interface StreamEvent {
  readonly id?: string;
  readonly event: string;
  readonly data: Json;
}

/** Reads an event stream one event at a time, and counts its comments. */
export class StreamReader {
  readonly #reader: ReadableStreamDefaultReader<string>;
  #rest = "";
  comments = 0;

  constructor(response: Response) {
    this.#reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** Resolves to the next event; undefined at the end of the stream. */
  async next(): Promise<StreamEvent | undefined> {
    for (;;) {
      const end = this.#rest.indexOf("\n\n");
      if (end !== -1) {
        const block = this.#rest.slice(0, end);
        this.#rest = this.#rest.slice(end + 2);
        const event = this.#parse(block);
        if (event !== undefined) return event;
        continue;
      }
      const { done, value } = await this.#reader.read();
      if (done) return undefined;
      this.#rest += value;
    }
  }

  /** Resolves to the next event of this name; other events are skipped. */
  async until(name: string): Promise<StreamEvent> {
    for (let event = await this.next(); event !== undefined; event = await this.next()) {
      if (event.event === name) return event;
    }
    throw new Error(`The stream ended without ${name}.`);
  }

  async all(): Promise<StreamEvent[]> {
    const events: StreamEvent[] = [];
    for (let event = await this.next(); event !== undefined; event = await this.next()) events.push(event);
    return events;
  }

  cancel(): Promise<void> {
    return this.#reader.cancel();
  }

  #parse(block: string): StreamEvent | undefined {
    if (block.startsWith(":")) this.comments++;
    const fields = new Map(
      block
        .split("\n")
        .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as const),
    );
    const event = fields.get("event");
    if (event === undefined) return undefined;
    const id = fields.get("id");
    return { event, data: JSON.parse(fields.get("data") ?? "null"), ...(id === undefined ? {} : { id }) };
  }
}

/** Tools for tests: one that fails, one that waits, one that is dangerous, and so on. */
export function sampleTools(): { tools: ToolInfo[]; hold: Hold } {
  const hold = new Hold();
  const tools = [
    Tool.define({
      name: "add",
      description: "Adds two numbers.",
      parameters: z.object({ a: z.number(), b: z.number().default(1), note: z.string().optional() }),
      metadata: { category: "math", tags: ["numbers"], readOnly: true },
      aliases: ["plus"],
      execute: async ({ input }) => ({ sum: input.a + input.b }),
    }),
    Tool.define({
      name: "fail",
      description: "Always fails.",
      parameters: z.object({}),
      execute: () => {
        throw new Error("the disk is on fire");
      },
    }),
    Tool.define({
      name: "wait",
      description: "Waits until it is let go or cancelled.",
      parameters: z.object({ id: z.string().default("x") }),
      execute: async (context) => {
        context.progress(1, 2, "half way");
        await hold.wait(context.input.id, context.signal);
        return `done ${context.input.id}`;
      },
    }),
    Tool.define({
      name: "long",
      description: "Answers with a long text.",
      parameters: z.object({ size: z.number() }),
      execute: async ({ input }) => "0123456789".repeat(input.size / 10),
    }),
    Tool.define({
      name: "login",
      description: "Takes a secret.",
      parameters: z.object({ user: z.string(), password: z.string() }),
      execute: async ({ input }) => `hello ${input.user}`,
    }),
    Tool.define({
      name: "outer",
      description: "Calls another tool.",
      parameters: z.object({ tool: z.string().default("add"), input: z.unknown() }),
      execute: async (context) => (await context.call(context.input.tool, context.input.input)).content,
    }),
    Tool.define({
      name: "wipe",
      description: "Is dangerous.",
      parameters: z.object({}),
      metadata: { dangerous: true },
      execute: async () => "wiped",
    }),
    Tool.define({
      name: "secret_area",
      description: "Asks for a permission.",
      parameters: z.object({}),
      metadata: { permissions: ["vault:open"] },
      execute: async () => "open",
    }),
  ];
  return { tools, hold };
}

/** Lets tests wait until a tool has started, and then let it finish. */
export class Hold {
  readonly #started = new Map<string, PromiseWithResolvers<void>>();
  readonly #released = new Map<string, PromiseWithResolvers<void>>();
  readonly aborted: string[] = [];

  async wait(id: string, signal: AbortSignal): Promise<void> {
    signal.addEventListener("abort", () => this.aborted.push(id));
    this.#of(this.#started, id).resolve();
    await Promise.race([
      this.#of(this.#released, id).promise,
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    ]);
  }

  started(id: string): Promise<void> {
    return this.#of(this.#started, id).promise;
  }

  release(id: string): void {
    this.#of(this.#released, id).resolve();
  }

  #of(map: Map<string, PromiseWithResolvers<void>>, id: string): PromiseWithResolvers<void> {
    let entry = map.get(id);
    if (entry === undefined) {
      entry = Promise.withResolvers();
      map.set(id, entry);
    }
    return entry;
  }
}
