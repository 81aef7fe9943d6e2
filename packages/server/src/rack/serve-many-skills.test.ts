import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openStore } from "../store/index.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type Serving, serve } from "./serve.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
/** More than a start waits for. */
const MANY = 2_500;
const [switched, scheduled, called] = [`many_${MANY - 1}`, `many_${MANY - 2}`, `many_${MANY - 3}`];
const near = `export const schema = { name: "near", description: "", type: "object", properties: {} };
export default async () => "here";`;

let workspace: TemporaryWorkspace;
let serving: Serving;

beforeEach(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/near.ts": near,
  });
  const store = await openStore({ directory: join(workspace.directory, ".toolrack") });
  // Tools that do something without a network: each calls the tool of the file.
  const tools = Array.from({ length: MANY }, (_, n) => ({
    ...{ id: `many_${n}`, name: `n${n}`, type: "builtin" as const, command: "near" },
  }));
  await store.skills.add({ skill: { id: "s", name: "Many", trusted: true }, tools, files: [] });
  await store.experts.add({ name: "Ann", skills: ["s"] });
  await store.toolSwitches.set({ toolName: switched, enabled: false, by: "Ann", at: 1 });
  await store.schedules.add({
    ...{ id: "due", toolName: scheduled, arguments: {}, caller: "Ann" },
    ...{ timing: { kind: "once", at: 1 }, missed: "run", nextRunAt: 1 },
  });
  await store.close();
  serving = await serve(workspace.directory, { logger: silent, port: 0 });
}, 60_000);

afterEach(async () => {
  await serving.close();
  await workspace[Symbol.asyncDispose]();
});

/** What the API answers, and whether tools were still missing when it did. */
async function ask(path: string, body?: object): Promise<{ answer: Answer; isEarly: boolean }> {
  const { url, token, app } = serving;
  const response = await fetch(url + path, {
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body && { method: "POST", body: JSON.stringify(body) }),
  });
  const isEarly = app.skills.loading !== undefined;
  return { answer: (await response.json()) as Answer, isEarly }; // The API has this shape.
}

interface Answer {
  readonly items: readonly { readonly name: string; readonly status?: string }[];
  readonly result?: { readonly content: string };
  readonly error?: { readonly code: string };
}

const call = (name: string) => ask(`/api/tools/${name}/calls`, { arguments: {} });

it("is ready before very many tools of skills are on the rack, and whoever needs them waits for them", async () => {
  expect(serving.app.registry.get(called)).toBeUndefined();
  expect(serving.starting()).toEqual(["skills"]);
  const [records, own, list, expert, late, off] = await Promise.all([
    ask("/api/calls"),
    call("near"),
    ask("/api/tools?limit=1&words=many_"),
    ask("/api/experts"),
    call(called),
    call(switched),
  ]);
  expect([records.isEarly, own.isEarly, own.answer.result?.content]).toEqual([true, true, "here"]);
  expect([list.isEarly, list.answer.items[0]?.name]).toEqual([false, "many_0"]);
  expect(expert.answer.items[0]?.name).toBe("Ann");
  expect([late.isEarly, late.answer.result?.content]).toEqual([false, "here"]);
  expect(off.answer.error?.code).toBe("tool_disabled");
  expect(serving.starting()).toEqual([]);
}, 60_000);

it("runs what was due only when the tool is there", async () => {
  for (;;) {
    const { answer } = await ask(`/api/calls?tool=${scheduled}`);
    const { status = "running" } = answer.items[0] ?? {};
    if (status === "running" || status === "pending") continue;
    expect(status).toBe("completed");
    return;
  }
}, 60_000);

it("ends while the tools are being read", async () => {
  expect(serving.app.skills.loading).toBeDefined();
  await serving.close();
  expect(serving.app.skills.loading).toBeUndefined();
}, 60_000);
