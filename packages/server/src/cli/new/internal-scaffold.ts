import type { Scaffold } from "./scaffold.ts";

export function internalScaffold(group: string, action: string): Scaffold {
  const tool = `internal_${group}_${action}`;
  const text = `import type { InternalTool, InternalToolContext } from "toolrack";

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
  return { file: `${group}/${action}.ts`, text, tool };
}
