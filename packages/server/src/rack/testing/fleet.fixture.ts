import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  findPostgres,
  startPostgres,
  type TestDatabaseServer,
} from "../../builtin-tools/testing/database-servers.ts";
import { ServedWorkspace } from "../../testing/served-workspace.ts";
import { temporaryFolder } from "../../testing/temporary-folder.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";

/** Debian's PostgreSQL, or undefined when there is none. */
export const postgres = findPostgres();

/**
 * Tools whose effects are counted in a file: `note` runs for `ms`, and writes when it begins, when it ends, and when its
 * signal fires. `asks` asks its caller, `endless` is a task, `big` returns a long text, `secretive` says a secret, `danger` needs approval.
 */
const tools = (file: string) => `
import { appendFileSync } from "node:fs";
import { Tool } from "@toolrack/core";
const write = (line) => appendFileSync(${JSON.stringify(file)}, line + "\\n");
const parameters = { type: "object", properties: { id: { type: "string" }, ms: { type: "number" } } };
const run = async (ctx) => {
  const { id = "", ms = 0 } = ctx.input;
  write("begin " + id + " " + process.pid);
  await new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    ctx.signal.addEventListener("abort", () => { clearTimeout(timer); write("abort " + id); reject(ctx.signal.reason); });
  });
  write("end " + id);
  return "noted " + id;
};
export const note = Tool.define({ name: "note", description: "Notes.", parameters, execute: run });
export const steady = Tool.define({ name: "steady", description: "Notes, again if need be.", parameters, metadata: { idempotent: true }, execute: run });
export const danger = Tool.define({ name: "danger", description: "Dangerous.", parameters, metadata: { dangerous: true }, execute: run });
export const big = Tool.define({ name: "big", description: "Long.", parameters: { type: "object", properties: { size: { type: "number" } } },
  execute: async ({ input: { size = 3_000_000 } }) => ({ content: "x".repeat(size), type: "text", attachments: [{ type: "file", mime: "text/plain", url: "data:text/plain," + "y".repeat(100_000) }] }) });
export const asks = Tool.define({ name: "asks", description: "Asks.", parameters: { type: "object", properties: {} }, execute: async ({ elicit }) =>
  JSON.stringify(await elicit({ message: "Who?", schema: { type: "object", properties: { n: { type: "string" } }, required: ["n"] } })) });
export const endless = Tool.define({ name: "endless", description: "Long.", parameters, metadata: { task: "required" }, execute: run });
export const secretive = Tool.define({ name: "secretive", description: "Says it.", parameters: { type: "object", properties: { text: { type: "string" } } }, execute: async ({ input: { text = "" } }) => "it is " + text });
`;

/** Servers on one PostgreSQL, each in a folder of its own, as on machines of their own. */
export class Fleet implements AsyncDisposable {
  readonly database: TestDatabaseServer;
  readonly key = randomBytes(32).toString("base64");
  readonly token = randomBytes(24).toString("base64url");
  readonly nodes: ServedWorkspace[] = [];
  /** What the tools wrote, on all nodes. */
  readonly file = join(temporaryFolder(), "effects");

  readonly #config: string;

  private constructor(database: TestDatabaseServer, config: object) {
    this.database = database;
    this.#config = JSON.stringify({ builtins: false, ...config });
  }

  /** `config`: further members of the config of all nodes. */
  static async start(count: number, config: object = {}): Promise<Fleet> {
    const fleet = new Fleet(await startPostgres(postgres!), config);
    writeFileSync(fleet.file, "");
    // The first one makes the tables; the others may start at once.
    fleet.nodes.push(await fleet.startNode());
    fleet.nodes.push(...(await Promise.all(Array.from({ length: count - 1 }, () => fleet.startNode()))));
    return fleet;
  }

  async startNode(environment: Record<string, string> = {}): Promise<ServedWorkspace> {
    const { directory } = await TemporaryWorkspace.create({
      "tools/notes.ts": tools(this.file),
      "toolrack.config.js": `export default ${this.#config};`,
    });
    return ServedWorkspace.start(directory, {
      DATABASE_URL: this.database.url,
      TOOLRACK_KEY: this.key,
      TOOLRACK_OPERATOR_TOKEN: this.token,
      TOOLRACK_SERVER_DRAIN_DELAY: "500",
      ...environment,
    });
  }

  /** The lines that tools wrote, those that begin with the given text. */
  effects(beginning = ""): string[] {
    if (!existsSync(this.file)) return [];
    return readFileSync(this.file, "utf8")
      .split("\n")
      .filter((line) => line !== "" && line.startsWith(beginning));
  }

  forgetEffects(): void {
    appendFileSync(this.file, "");
    writeFileSync(this.file, "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.nodes) await node[Symbol.asyncDispose]();
    await this.database[Symbol.asyncDispose]();
  }
}

/** Repeats until it returns something, at most for `limit` milliseconds. Returns the milliseconds that passed. */
export async function until(isDone: () => Promise<unknown> | unknown, limit = 15_000): Promise<number> {
  const begun = performance.now();
  while (!(await isDone())) {
    if (performance.now() - begun > limit) throw new Error(`It did not happen within ${limit} ms: ${isDone}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return performance.now() - begun;
}
