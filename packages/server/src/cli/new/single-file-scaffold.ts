import type { Scaffold } from "./scaffold.ts";

export function singleFileScaffold(name: string): Scaffold {
  const text = `module.exports = {
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
  return { file: `${name}.tool.js`, text, tool: name };
}
