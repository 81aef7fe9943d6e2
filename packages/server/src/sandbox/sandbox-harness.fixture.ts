import { rmSync } from "node:fs";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { openSandbox } from "./sandbox.ts";
import type { Invocation, Sandbox, SandboxOptions, WorkerSpec } from "./sandbox-types.ts";

/** A sandbox of a test, and short ways to use it. */
export class SandboxHarness {
  readonly sandbox: Sandbox;
  readonly messages: string[];
  readonly #directory: string;

  private constructor(sandbox: Sandbox, directory: string, messages: string[]) {
    this.sandbox = sandbox;
    this.#directory = directory;
    this.messages = messages;
  }

  static async open(options: Partial<SandboxOptions> = {}): Promise<SandboxHarness> {
    const directory = temporaryFolder();
    const messages: string[] = [];
    const say = (...values: unknown[]) => void messages.push(values.join(" "));
    const logger = { debug: say, info: say, warn: say, error: say };
    return new SandboxHarness(await openSandbox({ directory, logger, ...options }), directory, messages);
  }

  call(spec: WorkerSpec, method: string, invocation: Partial<Invocation> = {}): Promise<unknown> {
    return this.sandbox.invoke(spec, {
      method,
      params: null,
      signal: AbortSignal.timeout(20_000),
      ...invocation,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sandbox.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

let keys = 0;

/** A tool of these methods, each the source of a function, under a key of its own. */
export function toolOf(
  methods: Readonly<Record<string, string>>,
  more: Partial<WorkerSpec> = {},
): WorkerSpec {
  const entries = Object.entries(methods).map(([name, source]) => `${JSON.stringify(name)}: ${source}`);
  return {
    key: `key-${++keys}`,
    label: "tool",
    code: `module.exports = { methods: { ${entries.join(", ")} } };`,
    filename: "/workspace/tools/tool.js",
    hosts: [],
    settings: null,
    foreign: false,
    ...more,
  };
}
