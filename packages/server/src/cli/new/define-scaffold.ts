import type { Scaffold } from "./scaffold.ts";

export function defineScaffold(name: string): Scaffold {
  const text = `import { Tool } from "@toolrack/core";

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
  return { file: `${name}.ts`, text, tool: name };
}
