import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";
import { serve } from "../rack/serve.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Json = any;

const logger = { debug() {}, info() {}, warn() {}, error() {} };

/** A folder that is served, for tests. */
export class ServedWorkspace implements AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly #end: (signal: NodeJS.Signals) => Promise<unknown[]>;
  #said = "";

  private constructor(
    { url, token }: { readonly url: string; readonly token: string },
    end: (signal: NodeJS.Signals) => Promise<unknown[]>,
  ) {
    this.url = url;
    this.token = token;
    this.#end = end;
  }

  /** Served in this process, which starts much faster: for what needs a server, and no process of its own. */
  static async here(directory: string): Promise<ServedWorkspace> {
    const serving = await serve(directory, { logger, port: 0 });
    return new ServedWorkspace(serving, async () => [await serving.close()]);
  }

  /** Served by the real program, in a process of its own. */
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
    const served = new ServedWorkspace({ url: JSON.parse(line).url, token }, (signal) => {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      return ended;
    });
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
  end(signal: NodeJS.Signals): Promise<unknown[]> {
    return this.#end(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end("SIGKILL");
  }
}
