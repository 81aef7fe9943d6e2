import type { Scaffold, ScaffoldSurroundings } from "./scaffold.ts";

const zodArguments = `{
    name: tool.schema.string().describe("Whom to greet."),
  }`;

const jsonSchemaArguments = `{
    // With Zod installed this may be written as { name: tool.schema.string() }, which opencode runs as well.
    type: "object",
    properties: { name: { type: "string", description: "Whom to greet." } },
    required: ["name"],
  }`;

export function pluginScaffold(name: string, { hasZod }: ScaffoldSurroundings): Scaffold {
  const text = `import { tool } from "@opencode-ai/plugin";

// The file name is the name of the tool.
export default tool({
  description: "Greets somebody by name. Say here what the tool does and when to use it.",
  args: ${hasZod ? zodArguments : jsonSchemaArguments},
  async execute(args) {
    return \`Hello, \${args.name}!\`;
  },
});
`;
  return { file: `${name}.ts`, text, tool: name };
}
