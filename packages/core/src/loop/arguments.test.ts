import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { ToolRegistry } from "../registry/registry.ts";
import { define } from "../tool/define.ts";
import { ArgumentsKey } from "./arguments.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/** Whether nothing holds on to an object any more. */
async function isGone(object: WeakRef<object>): Promise<boolean> {
  // An object that was just made or read stays until the end of the turn.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  return object.deref() === undefined;
}

function keyOf(args: object): { readonly key: ArgumentsKey; readonly held: WeakRef<object> } {
  return { key: new ArgumentsKey(args), held: new WeakRef(args) };
}

const row = (at: number) => ({ name: `row ${at}`, notes: ["x".repeat(60), { more: "y".repeat(60) }] });

describe("the key of arguments", () => {
  it.each([
    ["one long text", () => ({ text: "x".repeat(3_000) })],
    ["many short texts in a list", () => ({ rows: Array.from({ length: 60 }, (_, at) => row(at)) })],
    [
      "many short texts deep inside",
      () => ({ a: { b: { c: Array.from({ length: 60 }, (_, at) => row(at)) } } }),
    ],
    ["very many members", () => Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`m${at}`, at]))],
    ["very many numbers", () => ({ numbers: Array.from({ length: 3_000 }, (_, at) => at) })],
  ])("does not hold on to %s, and is still that of equal arguments", async (_what, make) => {
    const { key, held } = keyOf(make());
    expect(await isGone(held)).toBe(true);
    expect(key.text).toBe(new ArgumentsKey(make()).text);
  });

  it("lets small arguments go when it is settled, and compares as before", async () => {
    const next = new ArgumentsKey({ term: "ledger", page: 2 });
    const { key, held } = keyOf({ term: "ledger", page: 1 });
    expect(await isGone(held)).toBe(false);
    key.settle();
    expect(await isGone(held)).toBe(true);
    expect(next.isNextTo(key)).toBe(true);
    expect(new ArgumentsKey({ term: "invoice", page: 2 }).isNextTo(key)).toBe(false);
    expect(next.keepsPartOf(key)).toBe(true);
    expect(new ArgumentsKey({ term: "invoice", page: 1 }).keepsPartOf(key)).toBe(false);
    expect(key.text).toBe(new ArgumentsKey({ page: 1, term: "ledger" }).text);
  });
});

it("a registry with very many sessions holds on to the arguments of none", async () => {
  const registry = new ToolRegistry({ historyLimit: 10 });
  const seen: WeakRef<object>[] = [];
  registry.register(
    define({
      name: "look",
      parameters: { type: "object", properties: { term: { type: "string" } } },
      execute: ({ input }) => {
        seen.push(new WeakRef(input));
        return "found nothing new";
      },
    }),
  );
  for (let session = 0; session < 300; session++)
    await registry.execute("look", { term: `t${session}` }, { sessionID: `s${session}` });
  const last = seen[280];
  expect(last && (await isGone(last))).toBe(true);
});
