import { Client, type ClientOptions, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { issueToken } from "../../../access/tokens.ts";
import { type Serving, serve } from "../../../rack/serve.ts";
import type { StoredToken } from "../../../store/tokens.ts";
import { TemporaryWorkspace } from "../../../testing/temporary-workspace.ts";
import type { Era } from "../../wire/client.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

export type { Era } from "../../wire/client.ts";

export interface RpcAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The text of the last message. */
  readonly text: string;
  /** The last message as an object. Tests read its members without checks. */
  // biome-ignore lint/suspicious/noExplicitAny: what comes back is what the test is about.
  readonly message: any;
}

/** A workspace that is really served, in this process, with methods to send requests to it. */
export class ServedRack {
  readonly workspace: TemporaryWorkspace;
  readonly serving: Serving;
  readonly #clients: Client[] = [];

  private constructor(workspace: TemporaryWorkspace, serving: Serving) {
    this.workspace = workspace;
    this.serving = serving;
  }

  static async open(files: Readonly<Record<string, string>>): Promise<ServedRack> {
    const workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": "export default { builtins: false };",
      ...files,
    });
    return ServedRack.over(workspace);
  }

  /** Serves an existing workspace, and removes it when the rack is disposed. */
  static async over(workspace: TemporaryWorkspace): Promise<ServedRack> {
    return new ServedRack(workspace, await serve(workspace.directory, { logger: silent, port: 0 }));
  }

  get token(): string {
    return this.serving.token;
  }

  async issue(scopes: StoredToken["scopes"], name = "tester"): Promise<string> {
    return (await issueToken(this.serving.store.tokens, { name, scopes })).token;
  }

  /** Sends a request to the HTTP API. Returns the body of the answer, with its status. */
  async api(
    method: string,
    path: string,
    body?: object,
    { token = this.token, headers = {} as Record<string, string> } = {},
    // biome-ignore lint/suspicious/noExplicitAny: what comes back is what the test is about.
  ): Promise<any> {
    const response = await fetch(new URL(path, this.serving.url), {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, ...((await response.json()) as object) };
  }

  async connect(
    era: Era,
    options: ClientOptions = {},
    {
      token = this.token,
      path = "/mcp",
      url = this.serving.url,
      headers = {} as Record<string, string>,
      prepare = (_: Client) => {},
    } = {},
  ): Promise<Client> {
    const client = new Client(
      { name: "tester", version: "1" },
      {
        ...options,
        versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" },
      },
    );
    prepare(client);
    await client.connect(
      new StreamableHTTPClientTransport(new URL(path, url), {
        requestInit: { headers: { authorization: `Bearer ${token}`, ...headers } },
      }),
    );
    this.#clients.push(client);
    return client;
  }

  /** Sends one request as a client of this era would. */
  async post(
    era: Era,
    message: object,
    { token = this.token, path = "/mcp", headers = {} as Record<string, string> } = {},
  ): Promise<RpcAnswer> {
    const response = await fetch(new URL(path, this.serving.url), {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(era === "modern" ? modernHeaders(message) : {}),
        ...headers,
      },
      body: JSON.stringify(era === "modern" ? withEnvelope(message) : message),
    });
    const body = await response.text();
    const isStream = response.headers.get("content-type")?.includes("event-stream") === true;
    const lines = body.split("\n").filter((line) => line.startsWith("data: "));
    const text = isStream ? (lines.at(-1)?.slice("data: ".length) ?? "") : body;
    return {
      status: response.status,
      headers: response.headers,
      text,
      message: text === "" ? undefined : JSON.parse(text),
    };
  }

  call(era: Era, name: string, args: object = {}, options: Parameters<ServedRack["post"]>[2] = {}) {
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } };
    return this.post(era, message, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) await client.close();
    await this.serving.close();
    await this.workspace[Symbol.asyncDispose]();
  }
}

function withEnvelope(message: object): object {
  const { params = {} } = message as { params?: { _meta?: object } };
  if (typeof params !== "object" || params === null) return message;
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "tester", version: "1" },
    ...params._meta,
  };
  return { ...message, params: { ...params, _meta } };
}

function modernHeaders(message: object): Record<string, string> {
  const { method, params } = message as { method?: string; params?: Record<string, unknown> };
  const name = params?.name ?? params?.uri ?? params?.taskId;
  return {
    "mcp-protocol-version": "2026-07-28",
    ...(method === undefined ? {} : { "mcp-method": method }),
    ...(typeof name === "string" ? { "mcp-name": name } : {}),
  };
}

/** The text of a tool file of contract 3. `tools` are the fields of its tools. */
export function toolFile(...tools: string[]): string {
  return `import { Tool, Prompt, Resource } from "@toolrack/core";
const nothing = { type: "object", properties: {} };
export const tools = [${tools.map((tool) => `Tool.define({ parameters: nothing, description: "d", ${tool} })`).join(",\n")}];
`;
}
