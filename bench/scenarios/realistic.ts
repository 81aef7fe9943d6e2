import { z } from "zod";
import { defineScenario } from "./scenario.ts";

const lineItem = z.object({
  sku: z.string().min(1),
  quantity: z.number().int().min(1),
  unitPrice: z.number(),
  tags: z.array(z.string()),
});

const zodSchema = z.object({
  orderId: z.string().min(1),
  customer: z.object({ id: z.number().int(), tier: z.enum(["free", "plus", "business"]) }),
  shipTo: z.object({
    street: z.string(),
    city: z.string(),
    postcode: z.string().regex(/^[A-Z0-9 -]{3,10}$/),
    country: z.enum(["DE", "FR", "GB", "JP", "US"]),
  }),
  items: z.array(lineItem).min(1),
  priority: z.enum(["low", "normal", "high"]),
});

export const realistic = defineScenario({
  name: "place_order",
  description: "Places an order for a customer and says whether it was accepted.",
  zodSchema,
  run: ({ orderId, items }) => (items.length > 1 ? "accepted " : "too small ") + orderId,
  makeInput,
  badInputs: [
    { ...makeInput(0), priority: "urgent" },
    { ...makeInput(0), items: [] },
    { ...makeInput(0), items: [{ ...makeLineItem(0, 0), quantity: 0 }] },
    { ...makeInput(0), items: [{ ...makeLineItem(0, 0), tags: ["gift", { fragile: true }] }] },
    { ...makeInput(0), shipTo: { ...makeInput(0).shipTo, country: "XX" } },
    { ...makeInput(0), shipTo: { ...makeInput(0).shipTo, postcode: "?" } },
    { ...makeInput(0), customer: { id: 1.5, tier: "free" } },
  ],
});

function makeInput(index: number): z.input<typeof zodSchema> {
  return {
    orderId: `order ${index}`,
    customer: { id: index, tier: index % 3 === 0 ? "free" : "business" },
    shipTo: {
      street: `${index} High Street`,
      city: "Springfield",
      postcode: `AB ${1000 + index}`,
      country: index % 2 === 0 ? "GB" : "US",
    },
    items: Array.from({ length: 5 }, (_, position) => makeLineItem(index, position)),
    priority: index % 5 === 0 ? "high" : "normal",
  };
}

function makeLineItem(index: number, position: number): z.input<typeof lineItem> {
  return {
    sku: `ABC-${1000 + index}`,
    quantity: 1 + (index % 9),
    unitPrice: 4.5 + position,
    tags: ["gift", "fragile"],
  };
}
