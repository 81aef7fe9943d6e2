import { ToolRegistry } from "@toolrack/core";
import { expect, test } from "vitest";
import type { StoredExpert } from "../store/experts.ts";
import { Experts } from "./experts.ts";

const expert = (tools: readonly string[]): StoredExpert => ({
  id: "e",
  name: "E",
  description: "",
  instructions: "",
  skills: [],
  tools,
  createdAt: 0,
  updatedAt: 0,
});

test("what was read before a change, and comes after it, does not undo it", async () => {
  const before = Promise.withResolvers<StoredExpert[]>();
  const reads = [before.promise, Promise.resolve([expert(["narrow"])])];
  const unused = () => Promise.reject(new Error("Nothing is changed here."));
  const store = { list: () => reads.shift()!, add: unused, update: unused, remove: unused };
  const experts = new Experts({ registry: new ToolRegistry(), store, skillId: () => undefined });
  const slow = experts.load();
  await experts.load();
  before.resolve([expert(["narrow", "wide"])]);
  await slow;
  expect(experts.require("E").tools).toEqual(["narrow"]);
});
