import { Tool, ToolRegistry } from "@toolrack/core";
import { expect, it } from "vitest";
import { masterGrant } from "../access/index.ts";
import { chatReach, ToolsService } from "./tools.ts";

async function openTools(...names: string[]) {
  const registry = new ToolRegistry();
  const add = (name: string) =>
    registry.register(
      Tool.define({
        name,
        description: `Does ${name}.`,
        parameters: { type: "object" },
        execute: async () => name,
      }),
    );
  for (const name of names) await add(name);
  const run = () => Promise.reject(new Error("no call is made here"));
  return { tools: new ToolsService(registry, { run }), registry, add };
}

const names = ({ infos }: { infos: ReadonlyMap<string, unknown> }) => [...infos.keys()].sort();

it("the same tools are offered without being put together again", async () => {
  const { tools } = await openTools("one", "two");
  expect(await tools.getTools()).toBe(await tools.getTools());
});

it("a token is never offered the tools of another, in whichever order they ask", async () => {
  const { tools } = await openTools("one", "two");
  const limited = chatReach({ ...masterGrant, admin: false, mayUse: ({ name }) => name === "one" });
  expect(names(await tools.getTools())).toEqual(["one", "two"]);
  expect(names(await tools.getTools(limited))).toEqual(["one"]);
  expect(names(await tools.getTools())).toEqual(["one", "two"]);
});

it("a right that is withdrawn holds for the next request", async () => {
  const { tools } = await openTools("one", "two");
  const allowed = new Set(["one", "two"]);
  const reach = chatReach({ ...masterGrant, admin: false, mayUse: ({ name }) => allowed.has(name) });
  expect(names(await tools.getTools(reach))).toEqual(["one", "two"]);
  allowed.delete("two");
  expect(names(await tools.getTools(reach))).toEqual(["one"]);
});

it("tools that are added or removed are seen by the next request", async () => {
  const { tools, registry, add } = await openTools("one");
  expect(names(await tools.getTools())).toEqual(["one"]);
  await add("two");
  expect(names(await tools.getTools())).toEqual(["one", "two"]);
  await registry.unregister("one");
  expect(names(await tools.getTools())).toEqual(["two"]);
});
