import { tool } from "@opencode-ai/plugin";

// An opencode-style tool: the default export is named after the file.
export default tool({
  description: "Rolls dice.",
  args: {
    type: "object",
    properties: {
      count: { type: "integer", minimum: 1, maximum: 100, default: 2, description: "How many dice." },
      sides: {
        type: "integer",
        minimum: 2,
        maximum: 1000,
        default: 6,
        description: "How many sides each has.",
      },
    },
  },
  async execute({ count = 2, sides = 6 }) {
    const rolls = Array.from({ length: count }, () => 1 + Math.floor(Math.random() * sides));
    return JSON.stringify({ rolls, total: rolls.reduce((sum, roll) => sum + roll, 0) });
  },
});
