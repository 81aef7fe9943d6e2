import { expect, test } from "vitest";
import type { OfferingChange, OfferingReader, OfferingSource } from "./offering-source.ts";
import { Offerings } from "./offerings.ts";

const warnings: string[] = [];
const logger = {
  debug() {},
  info() {},
  warn: (text: unknown) => void warnings.push(String(text)),
  error() {},
};
const reader: OfferingReader = { caller: "t", mayUse: () => true, signal: new AbortController().signal };

function source(key: string, names: readonly string[], more: Partial<OfferingSource> = {}): OfferingSource {
  return {
    key,
    prompts: () => names.map((name) => ({ name, title: key })),
    getPrompt: async (name) => (names.includes(name) ? { messages: [], description: key } : undefined),
    ...more,
  };
}

test("lists are the same in whatever order sources came, and the first key has a name that two claim", async () => {
  for (const order of [
    ["a", "b"],
    ["b", "a"],
  ]) {
    const offerings = new Offerings({ logger });
    for (const key of order) offerings.add(source(key, ["same", `only_${key}`]));
    const prompts = await offerings.prompts(reader);
    expect(prompts.map(({ name, title }) => `${title}:${name}`)).toEqual(["a:same", "a:only_a", "b:only_b"]);
    expect((await offerings.getPrompt("same", {}, reader))?.description).toBe("a");
    expect(await offerings.getPrompt("none", {}, reader)).toBeUndefined();
  }
});

test("a source that fails leaves the others' lists whole, and is named", async () => {
  const offerings = new Offerings({ logger });
  offerings.add(source("good", ["one"]));
  offerings.add({
    key: "bad",
    prompts: async () => {
      throw new Error("out of order");
    },
  });
  expect((await offerings.prompts(reader)).map(({ name }) => name)).toEqual(["one"]);
  expect(warnings.join()).toContain("bad could not be listed: out of order");
});

test("listeners are told when a source comes, changes, is replaced and goes", () => {
  const offerings = new Offerings({ logger });
  const told: OfferingChange[] = [];
  offerings.subscribe((change) => told.push(change));
  let tell = (_: OfferingChange) => {};
  const stopped: string[] = [];
  const changing = (name: string) =>
    source("a", [], {
      subscribe(listener) {
        tell = listener;
        return () => void stopped.push(name);
      },
    });
  offerings.add(changing("first"));
  tell({ kind: "resources" });
  offerings.add(changing("second"));
  offerings.remove("a");
  expect(told.map(({ kind }) => kind)).toEqual(["prompts", "resources", "prompts", "prompts"]);
  expect(stopped).toEqual(["first", "second"]);
});

test("a resource is watched once, however many wait for it, and until the last has gone", async () => {
  const offerings = new Offerings({ logger });
  const log: string[] = [];
  offerings.add({
    key: "a",
    resources: ({ mayUse }) => (mayUse({ name: "one" }) ? [{ uri: "x://1", name: "one" }] : []),
    watchResource(uri) {
      log.push(`watch ${uri}`);
      return () => void log.push(`stop ${uri}`);
    },
  });
  expect(await offerings.watchResource("x://1", { ...reader, mayUse: () => false })).toBeUndefined();
  expect(await offerings.watchResource("x://2", reader)).toBeUndefined();
  const first = await offerings.watchResource("x://1", reader);
  const second = await offerings.watchResource("x://1", reader);
  first?.();
  first?.();
  expect(log).toEqual(["watch x://1"]);
  second?.();
  expect(log).toEqual(["watch x://1", "stop x://1"]);
});

/** Reads whatever it is asked for, as a server with a template of everything would. */
function holder(key: string, uris: readonly string[], templates: readonly string[]): OfferingSource {
  return {
    key,
    resources: () => uris.map((uri) => ({ uri, name: uri })),
    resourceTemplates: () => templates.map((uriTemplate) => ({ uriTemplate, name: uriTemplate })),
    readResource: async (uri) => ({ contents: [{ uri, text: key }] }),
  };
}

test("a template takes over nothing that another source lists, nor what the rack itself answers for", async () => {
  const offerings = new Offerings({ logger });
  offerings.add(holder("a", [], ["{+any}", "x://{+any}", "skill://{+any}", "toolrack://{+any}"]));
  offerings.add(holder("b", ["x://1"], ["y://{id}"]));
  offerings.add(holder("skills", ["skill://s/SKILL.md"], []));
  const readBy = async (uri: string) => (await offerings.readResource(uri, reader))?.contents[0];
  expect(await readBy("x://1")).toMatchObject({ text: "b" });
  expect(await readBy("x://2")).toMatchObject({ text: "a" });
  expect(await readBy("y://2")).toMatchObject({ text: "b" });
  expect(await readBy("skill://s/SKILL.md")).toMatchObject({ text: "skills" });
  expect(await readBy("skill://s/other.md")).toBeUndefined();
  expect(await readBy("toolrack://calls/1/result")).toBeUndefined();
  const templates = await offerings.resourceTemplates(reader);
  expect(templates.map(({ uriTemplate }) => uriTemplate)).toEqual(["x://{+any}", "y://{id}"]);
});

test("of two templates that fit, the one with more text of its own is asked, and of equal ones the first source", async () => {
  const offerings = new Offerings({ logger });
  offerings.add(holder("a", [], ["x://{+any}", "y://s{?q}", "z://{id}"]));
  offerings.add(holder("b", [], ["x://files{/path*}", "y://s{?id}", "z://{other}"]));
  const readBy = async (uri: string) => (await offerings.readResource(uri, reader))?.contents[0];
  expect(await readBy("x://files/1/2")).toMatchObject({ text: "b" });
  expect(await readBy("x://other/1/2")).toMatchObject({ text: "a" });
  expect(await readBy("y://s?id=1")).toMatchObject({ text: "b" });
  expect(await readBy("y://s?q=1")).toMatchObject({ text: "a" });
  expect(await readBy("z://1")).toMatchObject({ text: "a" });
});
