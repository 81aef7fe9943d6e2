import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { OfferingChange } from "../../calls/offering-source.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;
const eras: Era[] = ["modern", "legacy"];

beforeAll(async () => {
  rack = await ServedRack.open({ "tools/first.ts": toolFile('name: "first", execute: async () => "1"') });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const offers = (name: string) => `import { Prompt, Resource } from "@toolrack/core";
let changed = () => {};
export const prompt = Prompt.define({ name: "${name}", arguments: [{ name: "who", required: true, complete: (typed) => ["ann", "bob"].filter((one) => one.startsWith(typed)) }], messages: ({ who }) => "Greet " + who });
export const resource = Resource.define({ uri: "note://${name}", name: "${name}", read: () => { setTimeout(() => changed(), 10); return "text of ${name}"; }, watch: (tell) => { changed = tell; return () => {}; } });
export const template = Resource.define({ uriTemplate: "note://${name}/{id}", name: "${name}-one", read: ({ id }) => id === "none" ? undefined : "note " + id });
`;

test.each(eras)(
  "%s clients are told when tools, prompts and resources change, and see the new ones",
  async (era) => {
    const { promise: tools, resolve: toolsChanged } = Promise.withResolvers<string[]>();
    const { promise: prompts, resolve: promptsChanged } = Promise.withResolvers<string[]>();
    const { promise: resources, resolve: resourcesChanged } = Promise.withResolvers<string[]>();
    const namesOf = (items: readonly { name: string }[] | null) => (items ?? []).map(({ name }) => name);
    const client = await rack.connect(era, {
      listChanged: {
        tools: { onChanged: (_, items) => toolsChanged(namesOf(items)) },
        prompts: { onChanged: (_, items) => promptsChanged(namesOf(items)) },
        resources: { onChanged: (_, items) => resourcesChanged(namesOf(items)) },
      },
    });
    // The older versions tell on a stream of its own, which the client opens after it has connected.
    await new Promise((resolve) => setTimeout(resolve, 300));
    await rack.workspace.write(`tools/${era}.ts`, toolFile(`name: "added_${era}", execute: async () => "2"`));
    await rack.workspace.write(`tools/offers-${era}.ts`, offers(`offer_${era}`));
    await rack.serving.app.files.load();
    expect(await tools).toContain(`added_${era}`);
    expect(await prompts).toContain(`offer_${era}`);
    expect(await resources).toContain(`offer_${era}`);
    await client.close();
  },
);

test("prompts and resources of a file are served, completed, and gone with the file", async () => {
  await rack.workspace.write("tools/offers.ts", offers("letter"));
  await rack.serving.app.files.load();
  const client = await rack.connect("modern");
  const { messages } = await client.getPrompt({ name: "letter", arguments: { who: "ann" } });
  expect(messages).toEqual([{ role: "user", content: { type: "text", text: "Greet ann" } }]);
  await expect(client.getPrompt({ name: "letter", arguments: {} })).rejects.toThrow(/needs the argument who/);
  const { completion } = await client.complete({
    ref: { type: "ref/prompt", name: "letter" },
    argument: { name: "who", value: "b" },
  });
  expect(completion.values).toEqual(["bob"]);
  const { contents } = await client.readResource({ uri: "note://letter/7" });
  expect(contents).toEqual([{ uri: "note://letter/7", text: "note 7" }]);
  await expect(client.readResource({ uri: "note://letter/none" })).rejects.toThrow(/not found/);
  await rack.workspace.remove("tools/offers.ts");
  await rack.serving.app.files.load();
  await expect(client.getPrompt({ name: "letter", arguments: { who: "ann" } })).rejects.toThrow(/no prompt/);
});

test.each(eras)("a %s client that asked for it hears when a resource changes", async (era) => {
  await rack.workspace.write("tools/offers.ts", offers("watched"));
  await rack.serving.app.files.load();
  const client = await rack.connect(era);
  const { promise, resolve } = Promise.withResolvers<string>();
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => resolve(params.uri));
  if (era === "legacy") await client.subscribeResource({ uri: "note://watched" });
  else await client.listen({ resourceSubscriptions: ["note://watched"] });
  await new Promise((wait) => setTimeout(wait, 300));
  await client.readResource({ uri: "note://watched" });
  expect(await promise).toBe("note://watched");
  await client.close();
});

test.each(eras)("a %s client is told of nothing but what has changed", async (era) => {
  await rack.workspace.write("skills/notes/SKILL.md", "---\nname: notes\ndescription: Notes.\n---\nText.");
  await rack.workspace.write("tools/mixed.ts", mixed(era, "one"));
  await rack.serving.app.files.load();
  await rack.serving.app.skills.reload();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const told: string[] = [];
  const { promise: tools, resolve: toolsChanged } = Promise.withResolvers<void>();
  const { promise: prompts, resolve: promptsChanged } = Promise.withResolvers<void>();
  const note = (kind: string, then?: () => void) => () => {
    told.push(kind);
    then?.();
  };
  const client = await rack.connect(era, {
    listChanged: {
      tools: { onChanged: note("tools", toolsChanged) },
      prompts: { onChanged: note("prompts", promptsChanged) },
      resources: { onChanged: note("resources") },
    },
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await rack.workspace.write("tools/mixed.ts", mixed(era, "two"));
  await rack.serving.app.files.load();
  await rack.serving.app.skills.reload();
  await tools;
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(new Set(told)).toEqual(new Set(["tools"]));
  // A skill is a prompt and resources.
  await rack.workspace.write("skills/notes/SKILL.md", "---\nname: notes\ndescription: Other.\n---\nText.");
  await rack.serving.app.skills.reload();
  await prompts;
  await client.close();
});

test("only lists that may have changed are read again", async () => {
  const read: string[] = [];
  let tell = (_: OfferingChange) => {};
  const { offerings, registry } = rack.serving.app;
  const note = (list: string) => () => {
    read.push(list);
    return [];
  };
  offerings.add({
    key: "counted",
    prompts: note("prompts"),
    resources: note("resources"),
    skills: note("skills"),
    subscribe(listener) {
      tell = listener;
      return () => {};
    },
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  let told = Promise.withResolvers<void>();
  const client = await rack.connect("modern", {
    listChanged: { tools: { onChanged: () => told.resolve() } },
  });
  const after = async (change: (name: string) => void, name: string) => {
    read.length = 0;
    told = Promise.withResolvers();
    change(name);
    registry.register(Tool.define({ name, description: "", parameters: {}, execute: () => "" }));
    await told.promise;
    return [...read].sort();
  };
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(await after(() => {}, "counted_one")).toEqual([]);
  expect(await after(() => tell({ kind: "prompts" }), "counted_two")).toEqual(["prompts"]);
  expect(await after(() => tell({ kind: "skills" }), "counted_three")).toEqual(["resources", "skills"]);
  await client.close();
  offerings.remove("counted");
});

const mixed = (era: Era, name: string) =>
  `${toolFile(`name: "mixed_${era}_${name}", execute: async () => "1"`)}
export const prompt = Prompt.define({ name: "mixed_${era}", arguments: [], messages: () => "Hello" });
`;
