import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  type ApprovalPolicy,
  type CallOptions,
  Tool,
  type ToolContext,
  ToolRegistry,
  type ToolResult,
} from "@toolrack/core";
import type { InternalTool, InternalToolContext } from "../../calls/internal-tool.ts";
import type { Workspace } from "../../config/config.ts";
import { temporaryFolder } from "../../testing/temporary-folder.ts";

/** A workspace in a temporary directory, with the rack's whole pipeline over it. For tests. */
export interface TestWorkspace extends AsyncDisposable {
  readonly directory: string;
  readonly workspace: Workspace;
  /** The answer to questions of a running tool; without it there is nobody to ask. */
  answer: "allow" | "deny" | undefined;
  readonly questions: string[];
  /** The absolute path of something in the workspace. */
  path(...names: string[]): string;
  /** Calls the tool as the rack does: arguments validated, defaults filled in, output checked. Never rejects. */
  call(tool: InternalTool, input: unknown, options?: CallOptions): Promise<ToolResult>;
  /** The structured result of a call that must succeed. */
  structured<Value>(tool: InternalTool, input: unknown): Promise<Value>;
  /** The text of a call that must succeed. */
  text(tool: InternalTool, input: unknown): Promise<string>;
  /** The message of a call that must fail. */
  failure(tool: InternalTool, input: unknown, options?: CallOptions): Promise<string>;
}

/**
 * Creates a workspace with these files, by their relative paths. Calls are an admin's by default. Disposing
 * removes the workspace.
 */
export async function openTestWorkspace(
  files: Readonly<Record<string, string | Uint8Array>> = {},
  settings: Partial<Workspace> = {},
): Promise<TestWorkspace> {
  const directory = temporaryFolder();
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), content);
  }
  const workspace: Workspace = {
    directory,
    roots: [directory],
    databases: {},
    network: { allowPrivate: [] },
    isAdmin: true,
    ...settings,
  };
  return new OpenWorkspace(directory, workspace);
}

class OpenWorkspace implements TestWorkspace {
  readonly directory: string;
  readonly workspace: Workspace;
  answer: "allow" | "deny" | undefined;
  readonly questions: string[] = [];

  constructor(directory: string, workspace: Workspace) {
    this.directory = directory;
    this.workspace = workspace;
  }

  path(...names: string[]): string {
    return join(this.directory, ...names);
  }

  call(tool: InternalTool, input: unknown, options?: CallOptions): Promise<ToolResult> {
    const registry = new ToolRegistry({
      maxContent: Number.MAX_SAFE_INTEGER,
      approval: { decide: ({ stage }) => (stage === "during" ? "ask" : "allow"), ...this.#person() },
    });
    registry.register(
      Tool.define({
        name: tool.name,
        description: tool.description,
        parameters: tool.inputSchema,
        execute: async (context) => {
          const internal = withWorkspace(context as unknown as ToolContext, this.workspace);
          // The schema has checked the arguments.
          return tool.handler(internal.input as never, internal);
        },
        ...(tool.metadata === undefined ? {} : { metadata: tool.metadata }),
        ...(tool.outputSchema === undefined ? {} : { outputSchema: tool.outputSchema }),
      }),
    );
    return registry.execute(tool.name, input, options);
  }

  async structured<Value>(tool: InternalTool, input: unknown): Promise<Value> {
    return (await this.#success(tool, input)).structured as Value;
  }

  async text(tool: InternalTool, input: unknown): Promise<string> {
    return (await this.#success(tool, input)).content;
  }

  async failure(tool: InternalTool, input: unknown, options?: CallOptions): Promise<string> {
    const result = await this.call(tool, input, options);
    if (result.error === undefined) throw new Error(`The call succeeded: ${result.content}`);
    return result.error.message;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }

  #person(): Pick<ApprovalPolicy, "ask"> {
    const { answer } = this;
    if (answer === undefined) return {};
    return {
      ask: async ({ message }) => {
        this.questions.push(message);
        return { decision: answer };
      },
    };
  }

  async #success(tool: InternalTool, input: unknown): Promise<ToolResult> {
    const result = await this.call(tool, input);
    if (result.error !== undefined) throw new Error(result.error.message);
    return result;
  }
}

/**
 * The pipeline's context with the additions of contract 1. A proxy, because the context's members are made on access.
 */
function withWorkspace(context: ToolContext, workspace: Workspace): InternalToolContext {
  const added: Record<PropertyKey, unknown> = { workspace, service: {}, model: {} };
  return new Proxy(context, {
    get: (target, key) => (key in added ? added[key] : Reflect.get(target, key, target)),
  }) as InternalToolContext;
}
