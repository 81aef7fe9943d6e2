import { Tool, type ToolConfig, ToolRegistry } from "@toolrack/core";
import { runToolName } from "../calls/meta-tools.ts";
import { SandboxHarness } from "../sandbox/sandbox-harness.fixture.ts";
import { CodeRuns } from "./code-runs.ts";
import { runTool } from "./run-tool.ts";

const anything = { type: "object", properties: {}, additionalProperties: true };

/** A rack with a real sandbox and the tool that runs code. */
export class CodeHarness {
  readonly registry: ToolRegistry;
  readonly harness: SandboxHarness;

  private constructor(registry: ToolRegistry, harness: SandboxHarness) {
    this.registry = registry;
    this.harness = harness;
  }

  static async open(settings: ConstructorParameters<typeof ToolRegistry>[0] = {}): Promise<CodeHarness> {
    const harness = await SandboxHarness.open({ blankWorkers: 2 });
    const registry = new ToolRegistry({ permissions: ["*"], ...settings });
    const runs = new CodeRuns(registry);
    registry.apply({
      put: [runTool({ registry, sandbox: async () => harness.sandbox, runs }, "always")],
    });
    return new CodeHarness(registry, harness);
  }

  add(name: string, execute: ToolConfig["execute"], more: Partial<ToolConfig> = {}): void {
    this.registry.register(
      Tool.define({ name, description: `The tool ${name}.`, parameters: anything, execute, ...more }),
    );
  }

  run(code: string, options: Parameters<ToolRegistry["execute"]>[2] = {}, more: object = {}) {
    return this.registry.execute(runToolName, { code, ...more }, options);
  }

  /** The value that the code returned. Fails when the run failed. */
  async value(code: string): Promise<unknown> {
    const { content, type, structured } = await this.run(code);
    if (type === "error") throw new Error(content);
    return type === "json" ? structured : content;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.harness[Symbol.asyncDispose]();
  }
}

/** What Node has, by the ways that are left to code. */
export const node =
  "const process = globalThis.process, require = process.getBuiltinModule('node:module').createRequire('/code/x.js'), __dirname = '/code', call = { notify() {}, request: async () => {}, signal: AbortSignal.abort() };\n";
