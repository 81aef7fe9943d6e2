import { z } from "zod";
import { defineScenario } from "./scenario.ts";

export const threeFields = defineScenario({
  name: "forecast",
  description: "The weather of the coming days in a city.",
  zodSchema: z.object({
    city: z.string(),
    days: z.number().min(1),
    metric: z.boolean(),
  }),
  run: ({ city, metric }) => (metric ? "°C in " : "°F in ") + city,
  makeInput: (index) => ({ city: `city ${index}`, days: 1 + (index % 14), metric: index % 2 === 0 }),
  badInputs: [
    { city: ["Riga"], days: 3, metric: true },
    { city: "Riga", days: 0, metric: true },
    { city: "Riga", days: 3, metric: { on: true } },
    { city: "Riga", metric: true },
  ],
});
