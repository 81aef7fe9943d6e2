import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { build } from "vite";
import { serveConsole } from "../../server/src/surfaces/console/serve-console.ts";
import { toolFiles } from "./tool-files.ts";

const repo = join(import.meta.dirname, "..", "..", "..");

/** The real program on a workspace of its own, with the console in front of it. */
export class ConsoleServer {
  readonly url: string;
  readonly token: string;
  readonly workspace: string;
  readonly #folder: string;
  readonly #program: ChildProcess;
  readonly #target: string;
  readonly #front: Server;

  private constructor(parts: {
    url: string;
    token: string;
    folder: string;
    workspace: string;
    program: ChildProcess;
    target: string;
    front: Server;
  }) {
    this.url = parts.url;
    this.token = parts.token;
    this.workspace = parts.workspace;
    this.#folder = parts.folder;
    this.#program = parts.program;
    this.#target = parts.target;
    this.#front = parts.front;
  }

  static async start(): Promise<ConsoleServer> {
    const folder = await mkdtemp(join(tmpdir(), "toolrack-console-"));
    const workspace = join(folder, "workspace");
    const dist = join(folder, "dist");
    await mkdir(workspace);
    await writeFile(join(workspace, "package.json"), '{ "type": "module" }\n');
    await Promise.all(Object.entries(toolFiles).map(([file, text]) => writeInto(workspace, file, text)));
    await build({
      root: join(import.meta.dirname, ".."),
      configFile: join(import.meta.dirname, "..", "vite.config.ts"),
      logLevel: "error",
      build: { outDir: dist },
    });
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
      {
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    const target = await addressOf(program);
    const front = await openFront(dist, target);
    const { port } = front.address() as AddressInfo; // It listens on a port.
    const token = (await readFile(join(workspace, ".toolrack", "token"), "utf8")).trim();
    return new ConsoleServer({
      url: `http://127.0.0.1:${port}`,
      token,
      folder,
      workspace,
      program,
      target,
      front,
    });
  }

  /** Writes a tool file, as somebody with an editor would. */
  write(file: string, text: string): Promise<void> {
    return writeInto(this.workspace, file, text);
  }

  ask<Answer>(path: string, body?: unknown): Promise<Answer> {
    return this.#ask(this.url + path, body);
  }

  /** Past what is in front of it, for what happens while the console cannot see it. */
  callDirectly(tool: string, args: unknown): Promise<{ callId: string }> {
    return this.#ask(`${this.#target}/api/tools/${tool}/calls`, { arguments: args });
  }

  /** Cuts every connection of the console, and lets no new one in. */
  disconnect(): Promise<void> {
    return new Promise((resolve) => {
      this.#front.close(() => resolve());
      this.#front.closeAllConnections();
    });
  }

  reconnect(): Promise<void> {
    const { hostname, port } = new URL(this.url);
    return new Promise((resolve) => this.#front.listen(Number(port), hostname, resolve));
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
    this.#front.closeAllConnections();
    this.#front.close();
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

/** One origin for the console's files and the API. */
async function openFront(dist: string, target: string): Promise<Server> {
  const consoleFiles = serveConsole(dist);
  const { hostname, port } = new URL(target);
  const front = createServer((incoming, outgoing) => {
    if (consoleFiles(incoming, outgoing)) return;
    const { url, method, headers } = incoming;
    const passed = request({ hostname, port, path: url, method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
  return front;
}
