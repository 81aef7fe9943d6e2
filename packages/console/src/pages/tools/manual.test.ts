import { expect, it } from "vitest";
import type { Tool } from "../../api/index.ts";
import { manualOf, variablesOf } from "./manual.ts";

const environment = {
  properties: {
    KEY: { type: "string", format: "password", description: "The key." },
    UNIT: { type: "string", default: "celsius" },
    SIZE: { type: "number", default: 3 },
  },
  required: ["KEY"],
};

it("tells which variables a tool declares, and which have a value for it or for all tools", () => {
  const stored = [
    { name: "weather/KEY" },
    { name: "KEY" },
    { name: "UNIT", value: "kelvin" },
    { name: "other/SIZE" },
  ];
  expect(variablesOf("weather", environment, stored)).toEqual([
    {
      name: "KEY",
      description: "The key.",
      isRequired: true,
      isSecret: true,
      usual: undefined,
      setFor: "tool",
      value: undefined,
    },
    {
      name: "UNIT",
      description: "",
      isRequired: false,
      isSecret: false,
      usual: "celsius",
      setFor: "all",
      value: "kelvin",
    },
    {
      name: "SIZE",
      description: "",
      isRequired: false,
      isSecret: false,
      usual: "3",
      setFor: undefined,
      value: undefined,
    },
  ]);
  expect(variablesOf("weather", undefined, stored)).toEqual([]);
});

it("reads what a single-file tool says of itself, and of other tools what they have", () => {
  const summary = {
    name: "t",
    displayName: "t",
    status: "ok",
    dangerous: false,
    readOnly: false,
    tokens: 1,
    source: "other",
    group: "",
    createdAt: 0,
  } as const;
  const tool = (metadata: Tool["metadata"]): Tool => ({ ...summary, metadata });
  const single = {
    environment,
    dependencies: { lodash: "^4" },
    businessErrors: [{ code: "A" }, 1],
    hosts: ["a.example"],
  };
  expect(manualOf(tool({ version: "1.2.0", author: "Ada", singleFile: single }))).toEqual({
    isSingleFile: true,
    version: "1.2.0",
    author: "Ada",
    environment,
    dependencies: ["lodash ^4"],
    errors: [{ code: "A" }],
    hosts: ["a.example"],
  });
  expect(manualOf(tool({ environment }))).toMatchObject({ isSingleFile: false, environment, errors: [] });
});
