import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Json = any;

/** The real program, serving a folder in a process of its own. For tests. */
export class ServedWorkspace implements AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;
  #said = "";

  private constructor(child: ChildProcess, ended: Promise<unknown[]>, url: string, token: string) {
    this.#child = child;
    this.#ended = ended;
    this.url = url;
    this.token = token;
  }

  static async start(directory: string, environment: Record<string, string> = {}): Promise<ServedWorkspace> {
    const [file, ...words] = program;
    const child = spawn(file!, [...words, "serve", "--port", "0", "--json", "--no-watch"], {
      cwd: directory,
      env: cleanEnvironment(environment),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ended = once(child, "close");
    let before = "";
    const note = (text: string) => {
      before += text;
    };
    child.stderr!.setEncoding("utf8").on("data", note);
    child.stdout!.setEncoding("utf8").on("data", note);
    const [line] = await Promise.race([once(createInterface(child.stdout!), "line"), ended]);
    if (typeof line !== "string" || !line.startsWith('{"type":"ready"')) {
      await ended;
      throw new Error(`The server did not start: ${before}`);
    }
    child.stdout!.off("data", note);
    // The lines of calls are of no use here, but a full pipe would hold the server up.
    child.stdout!.resume();
    const token =
      environment.TOOLRACK_OPERATOR_TOKEN ?? readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
    const served = new ServedWorkspace(child, ended, JSON.parse(line).url, token);
    child.stderr!.off("data", note).on("data", (text) => {
      served.#said += text;
    });
    served.#said = before;
    return served;
  }

  /** What it wrote to standard error. */
  get said(): string {
    return this.#said;
  }

  async ask(method: string, path: string, body?: unknown, token = this.token) {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: path.startsWith("/mcp") ? "application/json, text/event-stream" : "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json") === true;
    const parsed: Json = isJson ? JSON.parse(text) : text;
    return { status: response.status, body: parsed, headers: response.headers };
  }

  call(tool: string, input: object) {
    return this.ask("POST", `/api/tools/${tool}/calls`, { arguments: input });
  }

  /** Answers with its exit code and signal. */
  async end(signal: NodeJS.Signals): Promise<unknown[]> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill(signal);
    return this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end("SIGKILL");
  }
}
