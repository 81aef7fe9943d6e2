import { describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

async function openOne(file: string, text: string, others: Record<string, string> = {}) {
  await using workspace = await TemporaryWorkspace.create({ [file]: text, ...others });
  const { report } = await workspace.open({ builtins: false });
  const [found] = report.files.filter((each) => each.file === file);
  return { ...found!, said: workspace.messages.join("\n") };
}

const internal = (members: string) => `module.exports = { ${members} }`;
const object = "inputSchema: { type: 'object', properties: {} }";
const whole = `name: 'read', description: 'Reads.', ${object}, handler: async () => 'ok'`;

describe("contract 1", () => {
  it("a file that keeps to it is loaded without a word", async () => {
    const { status, warnings } = await openOne("tools/file/read.js", internal(whole));
    expect([status, warnings]).toEqual(["loaded", []]);
  });

  it.each([
    [
      "name",
      `description: 'x', ${object}, handler() {}`,
      /no name; the file name "read" is used.*Write name/,
    ],
    ["description", `name: 'read', ${object}, handler() {}`, /no description.*Write one/],
    ["inputSchema", "name: 'read', description: 'x', handler() {}", /no inputSchema.*Add one/],
    [
      "inputSchema that is null",
      "name: 'read', description: 'x', inputSchema: null, handler() {}",
      /no inputSchema/,
    ],
    [
      "type of the schema",
      "name: 'read', description: 'x', inputSchema: { properties: {} }, handler() {}",
      /no type\. Write type: "object"/,
    ],
    [
      "declaration of a required parameter",
      "name: 'read', description: 'x', inputSchema: { type: 'object', properties: {}, required: ['path'] }, handler() {}",
      /required names "path", which properties lacks/,
    ],
    [
      "declaration of all parameters",
      "name: 'read', description: 'x', inputSchema: { type: 'object', required: ['path'] }, handler() {}",
      /required names "path", which properties lacks/,
    ],
    [
      "type of a parameter",
      "name: 'read', description: 'x', inputSchema: { type: 'object', properties: { path: { description: 'p' } } }, handler() {}",
      /No type is given for "path".*Add type/,
    ],
    [
      "description of a parameter",
      "name: 'read', description: 'x', inputSchema: { type: 'object', properties: { path: { type: 'string' } } }, handler() {}",
      /No description is given for "path".*Add one/,
    ],
  ])("warns of a missing %s, and serves the tool", async (_, members, warning) => {
    const { status, tools, warnings, said } = await openOne("tools/file/read.js", internal(members));
    expect([status, tools]).toEqual(["adapted", ["internal_file_read"]]);
    expect(warnings).toEqual([expect.stringMatching(warning)]);
    expect(said).toMatch(warning);
  });

  it("warns of capitals and hyphens, and of a file that is named otherwise", async () => {
    const named = (name: string) => internal(whole.replace("'read'", `'${name}'`));
    expect((await openOne("tools/file/Read-All.js", named("Read-All"))).warnings).toEqual([
      expect.stringMatching(/name "Read-All" has capitals, hyphens.*Write "read_all"/),
    ]);
    expect((await openOne("tools/My-Files/read.js", internal(whole))).warnings).toEqual([
      expect.stringMatching(/folder "My-Files" has capitals, hyphens.*Write "my_files"/),
    ]);
    expect((await openOne("tools/file/读取.js", named("读取"))).warnings).toEqual([
      expect.stringMatching(/other characters.*Use lower-case letters and underscores/),
    ]);
    expect((await openOne("tools/file/read.js", named("internal_"))).tools).toEqual(["internal_file_read"]);
    expect((await openOne("tools/file/peek.js", internal(whole))).warnings).toEqual([
      expect.stringMatching(/file is named "peek", but its name is "read"/),
    ]);
  });

  it.each([
    ["has none", `name: 'read', description: 'x', ${object}`, /has no handler\./, /Add one: handler: async/],
    [
      "calls it otherwise",
      `name: 'read', ${object}, run() {}`,
      /no handler, but a function "run"/,
      /Rename it: handler/,
    ],
    [
      "has a text there",
      `name: 'read', ${object}, handler: 'x'`,
      /handler is string, no function/,
      /handler: async/,
    ],
  ])("a file without a handler fails and says so: it %s", async (_, members, reason, remedy) => {
    const { status, failure } = await openOne("tools/file/read.js", internal(members));
    expect(status).toBe("failed");
    expect(failure?.reason).toMatch(reason);
    expect(failure?.remedy).toMatch(remedy);
  });

  it("a guard beside the name, where it would not guard, is an error", async () => {
    const { status, failure } = await openOne("tools/file/read.js", internal(`dangerous: true, ${whole}`));
    expect(status).toBe("failed");
    expect(failure?.reason).toMatch(/"dangerous" beside its name.*metadata: \{ dangerous: … \}/);
    const { warnings } = await openOne("tools/file/read.js", internal(`timeout: 5, ${whole}`));
    expect(warnings).toEqual([expect.stringMatching(/"timeout" beside its name/)]);
  });

  it("a schema of another type than object is an error, because no call could run", async () => {
    const text = internal("name: 'read', description: 'x', inputSchema: { type: 'string' }, handler() {}");
    const { status, failure } = await openOne("tools/file/read.js", text);
    expect(status).toBe("failed");
    expect(`${failure?.reason} ${failure?.remedy}`).toMatch(/type "string".*Write type: "object"/);
  });

  it("names missing services and models when it is loaded, and again when a call fails for them", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.mjs": "export default { services: { project: {} } };",
      "tools/code/search.js":
        internal(`name: 'search', description: 'x', ${object}, handler: async (args, ctx) => {
        ctx.service.project; ctx.service.optional?.go();
        const { User, Role: role } = ctx.model;
        const searchService = ctx.service.search;
        return searchService.search(args.query);
      }`),
    });
    const { registry, report } = await workspace.open({ builtins: false });
    expect(report.files[0]?.warnings).toEqual([
      "ctx.service.search is missing: give it in toolrack.config.ts, services: { search: … }.",
      "ctx.model.User is missing: give it in toolrack.config.ts, models: { User: … }.",
      "ctx.model.Role is missing: give it in toolrack.config.ts, models: { Role: … }.",
    ]);
    const { content } = await registry.execute("internal_code_search", {});
    expect(content).toMatch(
      /reading 'search'.*ctx\.service\.search is missing: give it in toolrack\.config\.ts/,
    );
  });

  it.each([
    ["a parameter", "async ({ model }, { service }) => service.team.find(model.name)"],
    ["a constant", "async (args, ctx) => { const { service, logger } = ctx; return service.team.find(); }"],
  ])("names a missing service that is taken out of the context by %s", async (_, handler) => {
    const text = internal(`name: 'read', description: 'x', ${object}, handler: ${handler}`);
    const { warnings } = await openOne("tools/file/read.js", text);
    expect(warnings).toEqual([expect.stringMatching(/^ctx\.service\.team is missing/)]);
  });

  it("parameters of the tool called service or model are none of the context", async () => {
    const handler = "async ({ model }) => model.toUpperCase()";
    const text = internal(`name: 'read', description: 'x', ${object}, handler: ${handler}`);
    expect((await openOne("tools/file/read.js", text)).warnings).toEqual([]);
  });
});

describe("contract 2", () => {
  const run = "export default async () => ({ content: [] });";

  it("warns of a missing name, description and type", async () => {
    const { status, tools, warnings } = await openOne(
      "tools/hello.ts",
      `export const schema = { properties: { who: {} }, required: ["whom"] };\n${run}`,
    );
    expect([status, tools]).toEqual(["adapted", ["hello"]]);
    expect(warnings.map((warning) => warning.split(",")[0]!.split(".")[0]!.split(";")[0])).toEqual([
      "Its schema has no name",
      "It has no description",
      "Its schema has no type",
      'required names "whom"',
      'No type is given for "who"',
      'No description is given for "who"',
    ]);
  });

  it("a schema without a default function fails and says so, unless the file is a helper", async () => {
    const schema = `export const schema = { name: "hello", description: "x", type: "object", properties: {} };`;
    const { failure } = await openOne("tools/hello.ts", schema);
    expect(`${failure?.reason} ${failure?.remedy}`).toMatch(
      /no default function.*export default async function/,
    );
    const importer = `import "./hello.ts";\n${schema}\n${run}`;
    expect((await openOne("tools/hello.ts", schema, { "tools/other.ts": importer })).status).toBe("helper");
  });

  it("a guard in the schema, where it would not guard, is an error", async () => {
    const { failure } = await openOne(
      "tools/hello.ts",
      `export const schema = { name: "hello", description: "x", type: "object", properties: {}, dangerous: true };\n${run}`,
    );
    expect(failure?.reason).toMatch(/metadata: \{ dangerous: … \}/);
  });
});

describe("contract 3", () => {
  it("a key that Tool.define does not know is an error that names the right place", async () => {
    const { failure } = await openOne(
      "tools/wipe.ts",
      `import { Tool } from "@toolrack/core";
       export default Tool.define({ name: "wipe", parameters: {}, dangerous: true, execute: async () => "wiped" });`,
    );
    expect(failure?.reason).toMatch(/"wipe" has "dangerous" beside its name.*metadata: \{ dangerous: … \}/);
  });

  it.each([
    ["an object", "exports.tool = { MEMBERS, GUARD }"],
    ["a function create…Tool", "exports.createWipeTool = () => ({ MEMBERS, GUARD })"],
    [
      "a copy of a defined tool",
      "exports.tool = { ...require('@toolrack/core').Tool.define({ MEMBERS }), GUARD }",
    ],
  ])("a guard beside the name in %s is an error", async (_, code) => {
    const members =
      "name: 'wipe', description: 'x', parameters: { type: 'object' }, execute: async () => 'ran'";
    const text = code.replace("MEMBERS", members).replace("GUARD", "dangerous: true");
    const { status, failure } = await openOne("tools/wipe.js", text);
    expect([status, failure?.reason]).toEqual([
      "failed",
      expect.stringContaining("metadata: { dangerous: … }"),
    ]);
    expect(failure?.remedy).not.toContain("another name");
  });

  it("a function create…Tool that needs arguments is told how to be used", async () => {
    const text =
      "exports.createNeedyTool = (service) => ({ name: 'needy', parameters: {}, execute: () => service });";
    const { status, failure } = await openOne("tools/needy.js", text);
    expect([status, failure?.reason, failure?.remedy]).toEqual([
      "failed",
      expect.stringContaining("createNeedyTool needs arguments"),
      expect.stringContaining("() => createNeedyTool(…)"),
    ]);
  });
});

const told = `"Error: " + (error instanceof Error ? error.message : error)`;
it.each([
  ["with its Error", `return { content: [{ type: "text", text: ${told} }], isError: true, error }`],
  ["as a text, as the seed does", `return { content: [{ type: "text", text: ${told} }], isError: true }`],
  ["as JSON", `return { content: [{ type: "text", text: JSON.stringify(${told}) }], isError: true }`],
  [
    "by rejecting with it",
    `return Promise.reject({ content: [{ type: "text", text: ${told} }], isError: true })`,
  ],
])("an error that a tool returns %s is logged with the author's lines", async (_, answer) => {
  await using workspace = await TemporaryWorkspace.create({
    "tools/fails.ts": `export const schema = { name: "fails", description: "x", type: "object", properties: {} };
type Nothing = never;
export default async () => {
  try {
    throw new Error('no "paper"' as string);
  } catch (error) {
    JSON.parse("[1]");
    try { JSON.parse("{"); } catch (other) { String(other); }
    ${answer};
  }
};`,
  });
  const { registry } = await workspace.open({ builtins: false });
  const stacks: string[] = [];
  registry.subscribe(
    (event) => void (event.type === "record" && stacks.push(String(event.error?.stack))),
    ["record"],
  );
  expect((await registry.execute("fails", {})).content).toMatch(/^"?Error: no \\?"paper\\?""?$/);
  expect(stacks[0]).toContain("tools/fails.ts:5:11");
});
