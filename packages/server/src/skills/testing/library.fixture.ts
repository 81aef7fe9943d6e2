import { mkdir, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { type Logger, ToolRegistry } from "@toolrack/core";
import { DataFolders } from "../../sandbox/data-folder.ts";
import { openSandbox } from "../../sandbox/sandbox.ts";
import type { Sandbox } from "../../sandbox/sandbox-types.ts";

import { openStore, type Store } from "../../store/store.ts";

import { temporaryFolder } from "../../testing/temporary-folder.ts";
import { SkillLibrary, type SkillLibraryOptions } from "../skill-library.ts";

export interface LibraryFixtureOptions {
  readonly files?: Readonly<Record<string, string>>;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly settings?: Readonly<Record<string, string>>;
  /** What was set for each tool alone. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly names?: SkillLibraryOptions["names"];
  readonly allowPrivate?: readonly string[];
  readonly grants?: SkillLibraryOptions["surroundings"]["grants"];
}

/** A real library on a real store, with a real sandbox, in a folder of its own. */
export class TestLibrary {
  readonly directory: string;
  readonly registry: ToolRegistry;
  readonly store: Store;
  readonly library: SkillLibrary;
  readonly messages: string[];
  /** The dependencies that were to be installed; they are taken from the folder `installed`. */
  readonly installed: unknown[] = [];
  #sandbox: Promise<Sandbox> | undefined;

  private constructor(directory: string, store: Store, options: LibraryFixtureOptions) {
    const messages: string[] = [];
    const say = (...values: unknown[]) => void messages.push(values.join(" "));
    const logger: Logger = { debug: say, info: say, warn: say, error: say };
    const secrets = new Map(Object.entries(options.secrets ?? {}));
    this.messages = messages;
    this.directory = directory;
    this.store = store;
    const { environment, settings = {} } = options;
    this.registry = new ToolRegistry({
      logger,
      permissions: ["*"],
      secrets: () => secrets.values(),
      environment: () => environment && Promise.resolve(environment),
    });
    this.library = new SkillLibrary({
      registry: this.registry,
      store,
      workspace: directory,
      folders: [join(directory, "skills")],
      names: options.names ?? "id",
      logger,
      surroundings: {
        allowPrivate: options.allowPrivate ?? [],
        readValue: async (name, kind) => (kind === "secret" ? secrets.get(name) : settings[name]),
        sandbox: () => {
          this.#sandbox ??= openSandbox({
            directory: join(directory, ".toolrack", "sandbox"),
            logger,
            blankWorkers: 0,
          });
          return this.#sandbox;
        },
        grants: options.grants ?? {},
        openData: async (name) => new DataFolders(join(directory, ".toolrack", "data")).open(name),
        openFolders: async () => [],
        install: async (dependencies) => {
          this.installed.push(dependencies);
          return join(directory, "installed");
        },
        logger,
      },
    });
  }

  static async open(options: LibraryFixtureOptions = {}): Promise<TestLibrary> {
    const directory = temporaryFolder();
    const store = await openStore({ directory: join(directory, ".toolrack") });
    const fixture = new TestLibrary(directory, store, options);
    for (const [name, text] of Object.entries(options.files ?? {})) await fixture.write(name, text);
    await fixture.library.reload();
    return fixture;
  }

  async write(name: string, text: string): Promise<void> {
    const path = join(this.directory, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.library.close();
    await (await this.#sandbox)?.close();
    await this.store.close();
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** A real HTTP service on this machine, that remembers what it was asked. */
export class TestService {
  readonly url: string;
  readonly asked: { method: string; url: string; headers: IncomingMessage["headers"]; body: string }[];
  readonly #server: Server;

  private constructor(server: Server, asked: TestService["asked"]) {
    this.#server = server;
    this.asked = asked;
    // Only a server on a pipe has no port.
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(answer: RequestListener): Promise<TestService> {
    const asked: TestService["asked"] = [];
    const server = createServer(async (incoming, outgoing) => {
      let body = "";
      for await (const chunk of incoming) body += chunk;
      asked.push({ method: incoming.method ?? "", url: incoming.url ?? "", headers: incoming.headers, body });
      answer(incoming, outgoing);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new TestService(server, asked);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
