import { createServer, type Server as HttpServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text as textOf } from "node:stream/consumers";

const TASKS = "io.modelcontextprotocol/tasks";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

interface Task {
  readonly taskId: string;
  readonly name: string;
  looks: number;
  answer?: unknown;
}

/** The parameters that a request of the rack may have. */
interface Params {
  readonly taskId?: string;
  readonly name?: string;
  readonly inputResponses?: { readonly who?: unknown };
  readonly _meta?: Readonly<Record<string, { readonly extensions?: Readonly<Record<string, unknown>> }>>;
}

/** A server of the stateless protocol with the extension for tasks, over HTTP, written by hand. */
export class ModernTaskServer {
  readonly #http: HttpServer;
  readonly #tasks = new Map<string, Task>();
  /** The requests about tasks, each with the header by which a gateway would route it. */
  readonly asked: string[] = [];
  /** How many of the next `tasks/get` requests are answered with 503. */
  outages = 0;

  private constructor() {
    this.#http = createServer(async (incoming, outgoing) => {
      const { id, method, params = {} } = JSON.parse(await textOf(incoming));
      if (id === undefined) return void outgoing.writeHead(202).end();
      if (method === "tasks/get" && this.outages > 0) {
        this.outages--;
        return void outgoing.writeHead(503).end("busy");
      }
      const answer = this.#answer(method, params, incoming);
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
    });
  }

  static async start(): Promise<ModernTaskServer> {
    const server = new ModernTaskServer();
    await new Promise<void>((resolve) => server.#http.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}/mcp`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#http.close(resolve));
    this.#http.closeAllConnections();
    await closed;
  }

  #answer(method: string, params: Params, { headers }: IncomingMessage): object {
    const complete = (result: object) => ({ result: { resultType: "complete", ...result } });
    const { taskId = "", name = "" } = params;
    const knowsTasks = params._meta?.[CAPABILITIES]?.extensions?.[TASKS] !== undefined;
    if (method.startsWith("tasks/")) this.asked.push(`${method} ${headers["mcp-name"]}`);
    switch (method) {
      case "server/discover":
        return complete({
          supportedVersions: ["2026-07-28"],
          capabilities: { tools: {}, extensions: { [TASKS]: {} } },
          serverInfo: { name: "tasks", version: "1.0.0" },
          ttlMs: 1000,
          cacheScope: "public",
        });
      case "tools/list": {
        const tools = ["work", "ask", "fail", "endless"].map((name) => ({
          name,
          inputSchema: { type: "object" },
        }));
        return complete({ tools, ttlMs: 1000, cacheScope: "public" });
      }
      case "tools/call": {
        if (!knowsTasks) return { error: { code: -32_021, message: "Missing required client capability" } };
        const task: Task = { taskId: `task-${this.#tasks.size + 1}`, name, looks: 0 };
        this.#tasks.set(task.taskId, task);
        return { result: { resultType: "task", ...about(task, "working") } };
      }
      case "tasks/get":
        return complete(look(this.#tasks.get(taskId)!));
      case "tasks/update":
        this.#tasks.get(taskId)!.answer = params.inputResponses?.who;
        return complete({});
      case "tasks/cancel":
        return complete({});
      default:
        return { error: { code: -32_601, message: "Method not found" } };
    }
  }
}

function look(task: Task): object {
  task.looks++;
  const { name, looks, answer } = task;
  const result = (text: unknown) => ({
    ...about(task, "completed"),
    result: { content: [{ type: "text", text: String(text) }] },
  });
  if (name === "fail" && looks > 1)
    return { ...about(task, "failed"), error: { code: -32_050, message: "no more paper" } };
  if (name === "ask" && answer !== undefined) return result(JSON.stringify(answer));
  if (name === "ask") {
    const params = { message: "Your name?", requestedSchema: { type: "object", properties: {} } };
    return {
      ...about(task, "input_required"),
      inputRequests: { who: { method: "elicitation/create", params } },
    };
  }
  return name === "work" && looks > 2 ? result("worked") : about(task, "working");
}

function about({ taskId, looks }: Task, status: string): object {
  const at = new Date().toISOString();
  return {
    taskId,
    status,
    statusMessage: `looked at ${looks} times`,
    createdAt: at,
    lastUpdatedAt: at,
    ttlMs: null,
    pollIntervalMs: 1,
  };
}
