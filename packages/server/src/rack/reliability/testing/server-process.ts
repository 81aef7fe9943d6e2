import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { cleanEnvironment, program } from "../../../cli/testing/spawn-cli.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
export type Json = any;

export interface Answer {
  readonly status: number;
  readonly body: Json;
}

/**
 * Tools of contract 3 that write to disk when they begin and when they end, so that a test knows what ran
 * even if the process was killed.
 */
export const notingTools = `
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Tool } from "@toolrack/core";
const parameters = { type: "object", properties: { n: { type: "integer" }, ms: { type: "integer" } }, required: ["n"] };
const none = { type: "object", properties: {} };
const note = (file, text) => appendFileSync(process.env.NOTES + "/" + file, text + "\\n");
export const count = Tool.define({ name: "count", description: "Counts.", parameters,
  execute: async ({ input }) => { note("begun.txt", input.n); if (input.ms) await sleep(input.ms); note("counted.txt", input.n); return "counted " + input.n; } });
export const endless = Tool.define({ name: "endless", description: "Does not end.", parameters: none,
  execute: ({ signal }) => sleep(600_000, undefined, { signal }) });
export const tick = Tool.define({ name: "tick", description: "Notes its run.", parameters: none,
  execute: async ({ callId }) => { note("ticks.txt", callId); return "ticked"; } });
`;

interface AskOptions {
  readonly method?: string;
  readonly token?: string;
  readonly headers?: Record<string, string>;
}

export interface StartOptions {
  readonly env?: Record<string, string>;
  /** `worker`: performs calls of lanes, and has no address. Default `serve`. */
  readonly command?: "serve" | "worker";
  /** Further arguments of the command line. */
  readonly args?: readonly string[];
  /** The folder that `notingTools` write to. Default: the workspace. */
  readonly notes?: string;
}

/** A run of the real program, which serves a workspace, and an HTTP client that keeps its connections to it. */
export class ServerProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;
  readonly #agent = new Agent({ keepAlive: true });
  /** The line that the program printed when it was ready, parsed. */
  readonly ready: Json;
  readonly token: string;
  /** The lines that the program wrote to standard error. */
  readonly said: string[];

  private constructor(
    child: ChildProcess,
    ended: Promise<unknown[]>,
    ready: Json,
    token: string,
    said: string[],
  ) {
    this.#child = child;
    this.#ended = ended;
    this.ready = ready;
    this.token = token;
    this.said = said;
  }

  /** Starts the program. Rejects with its output when it ends before it is ready. */
  static async start(directory: string, options: StartOptions = {}): Promise<ServerProcess> {
    const [file, ...words] = program;
    const command = options.command === "worker" ? ["worker"] : ["serve", "--port", "0"];
    const args = [...words, ...command, "--json", "--no-watch", ...(options.args ?? [])];
    const child = spawn(file!, args, {
      cwd: directory,
      env: cleanEnvironment({ NOTES: options.notes ?? directory, ...options.env }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ended = once(child, "close");
    const said: string[] = [];
    createInterface(child.stderr!).on("line", (line) => void said.push(line));
    const printed: string[] = [];
    const lines = createInterface(child.stdout!).on("line", (line) => void printed.push(line));
    await Promise.race([once(lines, "line"), ended]);
    // A server that cannot start prints why in several lines.
    if (!printed[0]?.startsWith('{"type":"ready"')) {
      const [code] = await ended;
      throw new Error(`The server ended with ${code}: ${[...printed, ...said].join("\n")}`);
    }
    const ready = JSON.parse(printed[0]);
    lines.close();
    // The lines that the server prints for calls are not needed here, but a full pipe would block the server.
    child.stdout!.resume();
    const token = readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
    return new ServerProcess(child, ended, ready, token, said);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** Whether the program still runs: no test has ended it and it has not ended by itself. */
  get isAlive(): boolean {
    return !this.#child.killed && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Bytes of memory that belong to the process alone. */
  get memory(): number {
    return Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${this.pid}/status`, "utf8"))?.[1]) * 1024;
  }

  /** Sends a request: a GET without a body, else a POST. Rejects when the connection breaks. */
  async ask(
    path: string,
    body?: unknown,
    { method, token = this.token, headers }: AskOptions = {},
  ): Promise<Answer> {
    const outgoing = request(this.ready.url + path, {
      agent: this.#agent,
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
    });
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    const [incoming] = await once(outgoing, "response");
    return { status: incoming.statusCode, body: JSON.parse(await text(incoming)) };
  }

  call(tool: string, input: object, more: object = {}): Promise<Answer> {
    return this.ask(`/api/tools/${tool}/calls`, { arguments: input, ...more });
  }

  /** Makes a call over MCP, by its stateless protocol. */
  callOverMcp(tool: string, input: object): Promise<Answer> {
    const version = "2026-07-28";
    const named = { "mcp-method": "tools/call", "mcp-name": tool };
    const meta = {
      "io.modelcontextprotocol/protocolVersion": version,
      "io.modelcontextprotocol/clientInfo": { name: "reliability", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const params = { name: tool, arguments: input, _meta: meta };
    return this.ask(
      "/mcp",
      { jsonrpc: "2.0", id: 1, method: "tools/call", params },
      {
        headers: { accept: "application/json, text/event-stream", "mcp-protocol-version": version, ...named },
      },
    );
  }

  /**
   * Sends the signal and waits for the program to end. Rejects after half a minute: a server that was told to
   * stop and hangs is a bug.
   */
  async end(signal: NodeJS.Signals): Promise<unknown[]> {
    this.#child.kill(signal);
    if (signal === "SIGKILL") this.#agent.destroy();
    const late = sleep(30_000, undefined, { ref: false }).then(() => {
      this.#child.kill("SIGKILL");
      throw new Error(
        `The server did not end within 30 s of ${signal}. It said: ${this.said.slice(-5).join("\n")}`,
      );
    });
    return Promise.race([this.#ended, late]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isAlive) await this.end("SIGKILL");
  }
}

/** The lines of a file that tools append to; none when no tool has written to it. */
export function linesOf(directory: string, file: string): string[] {
  const path = join(directory, file);
  return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
}

export function repeatedIn(values: readonly string[]): string[] {
  const seen = new Set<string>();
  return values.filter((value) => seen.size === seen.add(value).size);
}
