import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type App, type OpenOptions, openWorkspace } from "../rack/app.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/** A workspace in a folder of its own, for tests. */
export class TemporaryWorkspace {
  readonly directory: string;
  readonly messages: string[] = [];
  readonly #apps: App[] = [];

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async create(files: Readonly<Record<string, string>> = {}): Promise<TemporaryWorkspace> {
    const workspace = new TemporaryWorkspace(temporaryFolder());
    for (const [name, text] of Object.entries(files)) await workspace.write(name, text);
    return workspace;
  }

  async write(name: string, text: string): Promise<void> {
    const path = join(this.directory, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.directory, name), { recursive: true, force: true });
  }

  async open(options: Partial<OpenOptions> = {}): Promise<App> {
    const say = (...values: unknown[]) => void this.messages.push(values.join(" "));
    const app = await openWorkspace(this.directory, {
      logger: { debug: say, info: say, warn: say, error: say },
      ...options,
    });
    this.#apps.push(app);
    return app;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const app of this.#apps) await app.close();
    await rm(this.directory, { recursive: true, force: true });
  }
}
