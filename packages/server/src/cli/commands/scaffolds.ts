import { usageError } from "../cli-error.ts";

/** The shapes in which a tool can be written, and what `toolrack new` makes for each. */
export const contracts = {
  internal: "an object with a handler in tools/GROUP/ACTION.ts",
  toolbox: "a schema, a default function and destroy in tools/NAME.ts",
  define: "Tool.define in tools/NAME.ts",
  plugin: "opencode's tool() in tools/NAME.ts",
  "single-file": "getMetadata, getSchema and execute in tools/NAME.tool.js, run in the sandbox",
  skill: "a SKILL.md with a script in skills/NAME, run in the sandbox",
} as const;

export type ContractName = keyof typeof contracts;

export const contractNames = Object.keys(contracts) as ContractName[]; // The keys of a constant object are its type's keys.

/** The files to start a tool with, by their paths below the folder of tools or of skills. The first has the tool. */
export interface Scaffold {
  readonly place: "tools" | "skills";
  readonly files: readonly (readonly [path: string, text: string])[];
  readonly tool: string;
}

const simpleName = /^[A-Za-z][A-Za-z0-9_-]{0,59}$/;
const skillName = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
const groupAndAction = /^([a-z][a-z0-9_]{0,24})\/([a-z][a-z0-9_]{0,24})$/;

/** What is wrong with a name for a contract; undefined when it can be used. */
export function nameProblem(contract: ContractName, name: string): string | undefined {
  if (contract === "internal") {
    return groupAndAction.test(name)
      ? undefined
      : `The name of an internal tool is GROUP/ACTION in small letters, digits and _, such as text/greet; "${name}" is not.`;
  }
  if (contract === "skill" && !(name.length <= 50 && skillName.test(name)))
    return `The name of a skill has small letters, digits and single hyphens, such as release-notes; "${name}" is not one.`;
  return simpleName.test(name)
    ? undefined
    : `A tool's name begins with a letter and has letters, digits, _ and - in it, such as greet; "${name}" is not one.`;
}

export function scaffold(contract: ContractName, name: string): Scaffold {
  const problem = nameProblem(contract, name);
  if (problem !== undefined) throw usageError(problem);
  const file = (path: string, text: string, tool: string): Scaffold => {
    return { place: "tools", files: [[path, text]], tool };
  };
  switch (contract) {
    case "internal": {
      const [group = "", action = ""] = name.split("/");
      const tool = `internal_${group}_${action}`;
      return file(`${name}.ts`, internalText(action, tool), tool);
    }
    case "toolbox":
      return file(`${name}.ts`, toolboxText(name), name);
    case "define":
      return file(`${name}.ts`, defineText(name), name);
    case "plugin":
      return file(`${name}.ts`, pluginText, name);
    case "single-file":
      return file(`${name}.tool.js`, singleFileText(name), name);
    case "skill": {
      const texts = { "SKILL.md": skillText(name), "tools.json": skillTools, "index.js": skillScript };
      const files = Object.entries(texts).map(([path, text]) => [`${name}/${path}`, text] as const);
      return { place: "skills", files, tool: `${name.replaceAll("-", "_")}__greet` };
    }
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

const skillText = (name: string) => `---
name: ${name}
description: Greets people. Say here what the skill is for and when to use it.
---

# ${name}

1. Ask for the name of whoever is to be greeted.
2. Call \`greet\` with it.
`;

const skillTools = `{
  "tools": [
    {
      "name": "greet",
      "description": "Greets somebody by name. Say here what the tool does and when to use it.",
      "type": "script",
      "command": "node index.js",
      "usage": {
        "parameters": {
          "type": "object",
          "properties": { "name": { "type": "string", "description": "Whom to greet." } },
          "required": ["name"]
        },
        "readOnly": true
      }
    }
  ]
}
`;

const skillScript = `// Called with the name of a tool of tools.json and its arguments.
exports.execute = async (toolName, { name }) => {
  if (toolName === "greet") return \`Hello, \${name}!\`;
  throw new Error(\`There is no tool "\${toolName}" in this skill.\`);
};
`;
