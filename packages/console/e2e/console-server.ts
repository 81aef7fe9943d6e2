import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { buildConsole } from "./built-console.ts";
import { Front } from "./front.ts";
import { toolFiles } from "./tool-files.ts";

const repo = join(import.meta.dirname, "..", "..", "..");

export interface ConsoleServerOptions {
  /** More files of the workspace, by their paths. */
  readonly files?: Readonly<Record<string, string>>;
  readonly environment?: Readonly<Record<string, string>>;
  /** What the workspace's folder is called. */
  readonly name?: string;
  /** Whether something stands between the browser and the server that can be cut. */
  readonly canBeCut?: boolean;
}

/** The real program on a workspace of its own, which serves the console. */
export class ConsoleServer {
  readonly url: string;
  readonly token: string;
  readonly workspace: string;
  readonly #folder: string;
  readonly #program: ChildProcess;
  readonly #target: string;
  readonly #front: Front | undefined;

  private constructor(parts: {
    url: string;
    token: string;
    folder: string;
    workspace: string;
    program: ChildProcess;
    target: string;
    front: Front | undefined;
  }) {
    this.url = parts.url;
    this.token = parts.token;
    this.workspace = parts.workspace;
    this.#folder = parts.folder;
    this.#program = parts.program;
    this.#target = parts.target;
    this.#front = parts.front;
  }

  static async start(options: ConsoleServerOptions = {}): Promise<ConsoleServer> {
    const { files = {}, environment = {}, name = "workspace", canBeCut = false } = options;
    await buildConsole();
    const folder = await mkdtemp(join(tmpdir(), "toolrack-console-"));
    const workspace = join(folder, name);
    await mkdir(workspace);
    const all = { "package.json": '{ "type": "module" }\n', ...toolFiles, ...files };
    await Promise.all(Object.entries(all).map(([file, text]) => writeInto(workspace, file, text)));
    const program = spawn(
      process.execPath,
      [
        "--conditions=toolrack-source",
        join(repo, "packages/server/src/main.ts"),
        "serve",
        "--dir",
        workspace,
        "--port",
        "0",
      ],
      { stdio: ["ignore", "pipe", "pipe"], env: { ...ownEnvironment(), ...environment } },
    );
    const target = await addressOf(program);
    const front = canBeCut ? await Front.open(target) : undefined;
    const url = front?.url ?? target;
    const token = (await readFile(join(workspace, ".toolrack", "token"), "utf8")).trim();
    return new ConsoleServer({ url, token, folder, workspace, program, target, front });
  }

  /** Writes a tool file, as somebody with an editor would. */
  write(file: string, text: string): Promise<void> {
    return writeInto(this.workspace, file, text);
  }

  /** A folder outside of the workspace, as somebody might choose one. */
  async folder(name: string, files: Readonly<Record<string, string>>): Promise<string> {
    await Promise.all(
      Object.entries(files).map(([file, text]) => writeInto(join(this.#folder, name), file, text)),
    );
    return join(this.#folder, name);
  }

  ask<Answer>(path: string, body?: unknown): Promise<Answer> {
    return this.#ask(this.url + path, body);
  }

  /** Past what is in front of it, for what happens while the console cannot see it. */
  callDirectly(tool: string, args: unknown): Promise<{ callId: string }> {
    return this.#ask(`${this.#target}/api/tools/${tool}/calls`, { arguments: args });
  }

  /** Cuts every connection of the console, and lets no new one in. */
  disconnect(): void {
    this.#requireFront().cut();
  }

  reconnect(): void {
    this.#requireFront().mend();
  }

  #requireFront(): Front {
    if (this.#front === undefined) throw new Error("Start it with `canBeCut`.");
    return this.#front;
  }

  async #ask<Answer>(url: string, body: unknown): Promise<Answer> {
    const answer = await fetch(url, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return answer.json();
  }

  call(tool: string, args: unknown, more: object = {}): Promise<{ callId: string }> {
    return this.ask(`/api/tools/${tool}/calls`, { arguments: args, ...more });
  }

  async close(): Promise<void> {
    this.#front?.close();
    const ended = new Promise((resolve) => this.#program.once("exit", resolve));
    this.#program.kill("SIGTERM");
    await ended;
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function writeInto(workspace: string, file: string, text: string): Promise<void> {
  const path = join(workspace, file);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

function addressOf(program: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (chunk: Buffer) => {
      said += chunk;
      const found = /Serving at (http:\/\/\S+)/.exec(said);
      if (found !== null) resolve(found[1]!);
    };
    program.stdout?.on("data", hear);
    program.stderr?.on("data", hear);
    program.once("exit", (code) => reject(new Error(`The server ended with ${code}:\n${said}`)));
  });
}

/** A model that somebody has configured on this machine is none of the tests' business. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const { OPENAI_API_KEY: _key, OPENAI_BASE_URL: _address, ...rest } = process.env;
  return rest;
}
