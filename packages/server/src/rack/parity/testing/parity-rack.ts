import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { vi } from "vitest";
import { copyWorkspace, program } from "../../../mcp/serve/testing/serve-workspace.ts";
import type { StoredCall } from "../../../store/calls/call-row.ts";
import { TemporaryWorkspace } from "../../../testing/temporary-workspace.ts";
import { type Serving, serve } from "../../serve.ts";
import { ScriptedModel } from "./scripted-model.ts";
import type { Surface } from "./surface.ts";
import { chat } from "./surfaces/chat.ts";
import { commandLine } from "./surfaces/command-line.ts";
import { http } from "./surfaces/http.ts";
import { library } from "./surfaces/library.ts";
import { mcp } from "./surfaces/mcp.ts";
import { openaiCalls } from "./surfaces/openai-calls.ts";
import { otherRack } from "./surfaces/other-rack.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
/** How long, in milliseconds, tests wait for what other processes write, and how often they look. */
const patience = { timeout: 60_000, interval: 20 };

/** One workspace with one store, and every surface of it, each started once. */
export class ParityRack {
  readonly directory: string;
  readonly serving: Serving;
  readonly model: ScriptedModel;
  surfaces: readonly Surface[] = [];
  readonly #clients: Client[] = [];
  readonly #others = new AsyncDisposableStack();

  private constructor(directory: string, serving: Serving, model: ScriptedModel) {
    this.directory = directory;
    this.serving = serving;
    this.model = model;
  }

  static async start(): Promise<ParityRack> {
    const model = await ScriptedModel.start();
    const directory = await copyWorkspace(join(import.meta.dirname, "workspace"));
    const config = {
      builtins: false,
      permissions: ["file:*"],
      server: { rateLimit: 0 },
      providers: { scripted: { baseURL: model.url, apiKey: "none", models: ["scripted"], images: true } },
    };
    await writeFile(join(directory, "toolrack.config.js"), `export default ${JSON.stringify(config)};`);
    const rack = new ParityRack(directory, await serve(directory, { logger: silent, port: 0 }), model);
    // The rule and the switch are set before the other surfaces start, as an operator would have done.
    await rack.post("/api/approval-rules", { tool: "wipe", decision: "deny" });
    await rack.post("/api/tools/switched", { enabled: false }, {}, undefined, "PATCH");
    await rack.#openSurfaces();
    return rack;
  }

  readonly post = (
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
    signal?: AbortSignal,
    method = "POST",
  ): Promise<Response> =>
    fetch(this.serving.url + path, {
      method,
      headers: { ...this.#bearer, "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });

  /** Resolves when the call of this session is under way, whichever process runs it. */
  readonly untilRunning = (session: string): Promise<void> =>
    vi.waitFor(async () => {
      const { items } = await this.serving.store.calls.list({ session, status: "running" });
      if (items.length === 0) throw new Error(`No call of ${session} is under way.`);
    }, patience);

  /** The record of the call, once it has ended. */
  ended(session: string, callId: string | undefined): Promise<StoredCall> {
    const { calls } = this.serving.store;
    return vi.waitFor(async () => {
      const id = callId ?? (await calls.list({ session, top: true })).items[0]?.callId;
      const call = id === undefined ? undefined : await calls.get(id);
      if (call === undefined || call.status === "running")
        throw new Error(`No call of ${session} has ended.`);
      return call;
    }, patience);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
    await this.#others.disposeAsync();
    await this.serving.close();
    await this.model.stop();
    await rm(this.directory, { recursive: true, force: true });
  }

  get #bearer() {
    return { authorization: `Bearer ${this.serving.token}` };
  }

  async #openSurfaces(): Promise<void> {
    const [command, ...words] = program;
    const overHttp = () =>
      new StreamableHTTPClientTransport(new URL("/mcp", this.serving.url), {
        requestInit: { headers: this.#bearer },
      });
    const overStdio = new StdioClientTransport({
      command: command!,
      args: [...words, "mcp", "--dir", this.directory],
      stderr: "ignore",
    });
    const [modern, legacy, stdio] = await Promise.all([
      this.#connect({ pin: "2026-07-28" }, overHttp()),
      this.#connect("legacy", overHttp()),
      this.#connect({ pin: "2026-07-28" }, overStdio),
    ]);
    this.surfaces = [
      library(this),
      commandLine(this),
      http(this),
      openaiCalls(this),
      mcp("MCP modern", "http", modern, this),
      mcp("MCP legacy", "http", legacy, this),
      mcp("MCP stdio", "mcp", stdio, this),
      chat(this),
      otherRack(await this.#serveOther(), this),
    ];
  }

  /** Serves another workspace, which has this rack as an API. */
  async #serveOther(): Promise<Serving> {
    const far = { spec: `${this.serving.url}/openapi.json`, approve: [], headers: this.#bearer };
    const workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false, server: { rateLimit: 0 } };",
      "apis.json": JSON.stringify({ apis: { far } }),
    });
    this.#others.use(workspace);
    const serving = await serve(workspace.directory, { logger: silent, port: 0 });
    this.#others.defer(() => serving.close());
    await vi.waitFor(() => {
      if (serving.app.registry.get("api_far_callTool") === undefined)
        throw new Error("It is not listed yet.");
    }, patience);
    return serving;
  }

  async #connect(
    mode: "legacy" | { pin: string },
    transport: Parameters<Client["connect"]>[0],
  ): Promise<Client> {
    const client = new Client({ name: "parity", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(transport);
    this.#clients.push(client);
    return client;
  }
}
