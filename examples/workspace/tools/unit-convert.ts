import { Tool } from "@toolrack/core";

const metres = { mm: 0.001, cm: 0.01, m: 1, km: 1000, inch: 0.0254, foot: 0.3048, mile: 1609.344 } as const;

export const unitConvert = Tool.define({
  name: "unit_convert",
  description: "Converts a length from one unit to another.",
  parameters: {
    type: "object",
    properties: {
      value: { type: "number", description: "The length to convert." },
      from: { enum: ["mm", "cm", "m", "km", "inch", "foot", "mile"], description: "The unit it is in." },
      to: {
        enum: ["mm", "cm", "m", "km", "inch", "foot", "mile"],
        description: "The unit to convert it to.",
      },
    },
    required: ["value", "from", "to"],
  },
  metadata: { category: "math", readOnly: true, tags: ["length"] },
  execute: async ({ input }) => {
    const value = (input.value * metres[input.from]) / metres[input.to];
    return { value, unit: input.to };
  },
});
