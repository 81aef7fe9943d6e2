import { usageError } from "../cli-error.ts";

/** The shapes in which a tool can be written, and what `toolrack new` makes for each. */
export const contracts = {
  internal: "an object with a handler in tools/GROUP/ACTION.ts",
  toolbox: "a schema, a default function and destroy in tools/NAME.ts",
  define: "Tool.define in tools/NAME.ts",
  plugin: "opencode's tool() in tools/NAME.ts",
  "single-file": "getMetadata, getSchema and execute in tools/NAME.tool.js, run in the sandbox",
} as const;

export type ContractName = keyof typeof contracts;

export const contractNames = Object.keys(contracts) as ContractName[]; // The keys of a constant object are its type's keys.

/** A file to start a tool with. */
export interface Scaffold {
  /** Path below the tools folder. */
  readonly file: string;
  readonly text: string;
  readonly tool: string;
}

const simpleName = /^[A-Za-z][A-Za-z0-9_-]{0,59}$/;
const groupAndAction = /^([a-z][a-z0-9_]{0,24})\/([a-z][a-z0-9_]{0,24})$/;

/** What is wrong with a name for a contract; undefined when it can be used. */
export function nameProblem(contract: ContractName, name: string): string | undefined {
  if (contract === "internal") {
    return groupAndAction.test(name)
      ? undefined
      : `The name of an internal tool is GROUP/ACTION in small letters, digits and _, such as text/greet; "${name}" is not.`;
  }
  return simpleName.test(name)
    ? undefined
    : `A tool's name begins with a letter and has letters, digits, _ and - in it, such as greet; "${name}" is not one.`;
}

export function scaffold(contract: ContractName, name: string): Scaffold {
  const problem = nameProblem(contract, name);
  if (problem !== undefined) throw usageError(problem);
  switch (contract) {
    case "internal": {
      const [group = "", action = ""] = name.split("/");
      const tool = `internal_${group}_${action}`;
      return { file: `${name}.ts`, text: internalText(action, tool), tool };
    }
    case "toolbox":
      return { file: `${name}.ts`, text: toolboxText(name), tool: name };
    case "define":
      return { file: `${name}.ts`, text: defineText(name), tool: name };
    case "plugin":
      return { file: `${name}.ts`, text: pluginText, tool: name };
    case "single-file":
      return { file: `${name}.tool.js`, text: singleFileText(name), tool: name };
  }
}

const internalText = (
  action: string,
  tool: string,
) => `import type { InternalTool, InternalToolContext } from "toolrack";

interface Arguments {
  readonly name: string;
}

// The folder is the group and the name is the action: this tool is ${tool}.
export default {
  name: "${action}",
  description: "Greets somebody by name. Say here what the tool does and when to use it.",
  inputSchema: {
    type: "object",
    properties: {
      name: { type: "string", description: "Whom to greet." },
    },
    required: ["name"],
  },
  metadata: { readOnly: true },
  async handler({ name }: Arguments, ctx: InternalToolContext) {
    ctx.logger.info(\`Greeting \${name}.\`);
    return { content: [{ type: "text", text: \`Hello, \${name}!\` }] };
  },
} satisfies InternalTool;
`;

const toolboxText = (name: string) => `export const schema = {
  name: "${name}",
  description: "Greets somebody by name. Say here what the tool does and when to use it.",
  type: "object",
  properties: {
    name: { type: "string", description: "Whom to greet." },
  },
  required: ["name"],
  outputSchema: {
    type: "object",
    properties: {
      content: {
        type: "array",
        items: { type: "object", properties: { type: { type: "string" }, text: { type: "string" } } },
      },
      isError: { type: "boolean" },
    },
  },
};

interface Request {
  readonly params: { readonly arguments: { readonly name: string } };
}

export default async function (request: Request) {
  const { name } = request.params.arguments;
  return { content: [{ type: "text", text: \`Hello, \${name}!\` }] };
}

// Runs before a new version takes over: stop timers, close connections.
export async function destroy() {}
`;

const defineText = (name: string) => `import { Tool } from "@toolrack/core";

export default Tool.define({
  name: "${name}",
  description: "Greets somebody by name. Say here what the tool does and when to use it.",
  parameters: {
    type: "object",
    properties: {
      name: { type: "string", description: "Whom to greet." },
    },
    required: ["name"],
  },
  metadata: { readOnly: true },
  execute: async ({ input }) => \`Hello, \${input.name}!\`,
});
`;

const pluginText = `import { tool } from "@opencode-ai/plugin";

// The file name is the name of the tool.
export default tool({
  description: "Greets somebody by name. Say here what the tool does and when to use it.",
  args: {
    name: tool.schema.string().describe("Whom to greet."),
  },
  async execute(args) {
    return \`Hello, \${args.name}!\`;
  },
});
`;

const singleFileText = (name: string) => `module.exports = {
  getMetadata() {
    return {
      id: "${name}",
      name: "${name}",
      description: "Greets somebody by name. Say here what the tool does and when to use it.",
      version: "1.0.0",
    };
  },

  getSchema() {
    return {
      parameters: {
        type: "object",
        properties: {
          name: { type: "string", description: "Whom to greet.", minLength: 1 },
        },
        required: ["name"],
      },
    };
  },

  getDependencies() {
    return {};
  },

  // Failures that you foresee: whoever calls is told the solution.
  getBusinessErrors() {
    return [];
  },

  async execute({ name }) {
    this.api.logger.info("greeting", { name });
    return \`Hello, \${name}!\`;
  },
};
`;
