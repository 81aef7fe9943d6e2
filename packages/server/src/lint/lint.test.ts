import { cp } from "node:fs/promises";
import { resolve } from "node:path";
import { Tool, type ToolConfig, type ToolInfo } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { metaTools, scheduleTool } from "../calls/index.ts";
import { readResultTool } from "../chat/index.ts";
import { type LintRule, lintRules } from "../config/index.ts";
import { startMcpServers } from "../rack/index.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { Linter, readSwitches } from "./index.ts";

const noSwitches = new Map();
const never = () => {
  throw new Error("No tool runs here.");
};

function tool(config: Partial<ToolConfig>, more: Partial<ToolInfo> = {}): ToolInfo {
  const text = { type: "string", description: "Words of any language, at most 100." };
  const parameters = {
    type: "object",
    properties: { text },
    required: ["text"],
    additionalProperties: false,
  };
  const description = "Translates a text into the language of the reader.";
  return {
    ...Tool.define({ name: "translate", description, parameters, execute: () => "", ...config }),
    ...more,
  };
}

async function findings(tools: readonly ToolInfo[]) {
  return (await Linter.open(tools)).lint(noSwitches);
}

async function codes(...tools: readonly ToolInfo[]): Promise<LintRule[]> {
  return (await findings(tools)).map(({ code }) => code);
}

const withParameters = (properties: object, required: string[] = []) =>
  tool({ parameters: { type: "object", properties, required, additionalProperties: false } });

it("finds nothing in a tool that says what it does", async () => {
  expect(await codes(tool({}))).toEqual([]);
});

it("gives every finding a code, a reason and a remedy", async () => {
  const [finding] = await findings([tool({ description: "" })]);
  expect(finding).toEqual({
    code: "description_missing",
    tool: "translate",
    reason: expect.stringMatching(/no description/),
    remedy: expect.stringMatching(/what it does/),
  });
});

describe("texts", () => {
  it.each(["", "  ", undefined])("misses a description: %j", async (description) => {
    expect(await codes({ ...tool({}), description: description! })).toEqual(["description_missing"]);
  });

  it.each(["TODO", "translate", "The translate tool.", "Translates.", "description here", "A tool"])(
    "finds a description vague that tells nothing: %j",
    async (description) => {
      expect(await codes(tool({ description }))).toEqual(["description_vague"]);
    },
  );

  it.each(["翻译一段文字。", "Translates a text into German.", "Rolls dice."])(
    "takes a short description that says something: %j",
    async (description) => {
      expect(await codes(tool({ name: "run_it", description }))).not.toContain("description_missing");
      expect(await codes(tool({ name: "internal_text", description }))).not.toContain("description_missing");
    },
  );

  it("names the parameters without description, at any depth, and not those that have one elsewhere", async () => {
    const [finding] = await findings([
      tool({
        parameters: {
          type: "object",
          $defs: {
            place: {
              type: "object",
              description: "A place on the map.",
              properties: { lat: { type: "number" } },
            },
          },
          properties: {
            bare: { type: "string" },
            at: { $ref: "#/$defs/place" },
            rows: {
              type: "array",
              items: { type: "object", description: "One row.", properties: { cell: {} } },
            },
            kind: { const: "fixed" },
          },
        },
      }),
    ]);
    expect(finding).toMatchObject({
      code: "parameter_undescribed",
      parameters: ["place.lat", "bare", "rows[].cell"],
    });
    expect(finding!.reason).toBe("3 parameters have no description: `place.lat`, `bare`, `rows[].cell`.");
  });

  it("takes a line of the tool's description for the description of a parameter", async () => {
    const description =
      "Translates a text.\n\nArgs:\n    from: The language of the text.\n    to (str): The reader's.\n  - `mode`: fast or exact";
    const properties = { from: {}, to: {}, mode: {}, other: { type: "string" } };
    const [finding] = await findings([tool({ description, parameters: { type: "object", properties } })]);
    expect(finding).toMatchObject({ code: "parameter_undescribed", parameters: ["other"] });
  });

  it("reads schemas of any library", async () => {
    const parameters = z.object({
      first: z.string(),
      second: z.string().describe("ISO date, such as 2026-07-28."),
    });
    const [finding] = await findings([tool({ parameters })]);
    expect(finding).toMatchObject({ code: "parameter_undescribed", parameters: ["first"] });
  });

  it("finds the description of a parameter vague that only repeats its name", async () => {
    const given = withParameters({
      language: { type: "string", description: "The language." },
      target: { type: "string", description: "The language to translate into, such as de." },
    });
    expect(await findings([given])).toMatchObject([{ code: "parameter_vague", parameters: ["language"] }]);
  });
});

describe("near-twins", () => {
  const weather = (name: string, description: string, properties: object = {}) =>
    tool({ name, description, parameters: { type: "object", properties, additionalProperties: false } });
  const others = [
    tool({ name: "send_mail", description: "Sends a letter to people by mail." }),
    tool({ name: "resize_image", description: "Changes the size of a picture." }),
    tool({ name: "list_orders", description: "Lists the orders of a customer, newest first." }),
  ];

  it("are found by search, once for the two, with the words that tell them apart", async () => {
    const city = { city: { type: "string", description: "Name of the town." } };
    const zip = { zip: { type: "string", description: "Postal code of five digits." } };
    const found = await findings([
      weather("get_weather", "Gets the weather for a place.", city),
      weather("fetch_weather", "Fetches the weather for a place.", zip),
      ...others,
    ]);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatchObject({ code: "near_twin", tool: "get_weather", twin: "fetch_weather" });
    expect(found[0]!.reason).toMatch(/confuse it with fetch_weather/);
    expect(found[0]!.remedy).toMatch(/get_weather: .*city.*; fetch_weather: .*zip/);
  });

  it("are no tools that do different things to the same object", async () => {
    const found = await codes(
      weather("create_issue", "Creates an issue of a project in the tracker."),
      weather("delete_issue", "Deletes an issue of a project in the tracker."),
      weather("list_issues", "Lists the issues of a project in the tracker."),
      ...others,
    );
    expect(found).not.toContain("near_twin");
  });

  it("says so when nothing tells them apart", async () => {
    const [found] = await findings([
      weather("weather_now", "Tells the weather for a place."),
      weather("now_weather", "Tells the weather for a place."),
      ...others,
    ]);
    expect(found).toMatchObject({
      code: "near_twin",
      remedy: expect.stringMatching(/no word that tells them apart/),
    });
  });
});

describe("ids that a model cannot know", () => {
  const text = { type: "string", description: "Names the project within the tracker." };
  const needs = (id: object) =>
    tool({
      name: "archive_project",
      description: "Puts a project into the archive for good.",
      parameters: {
        type: "object",
        properties: { project_id: id },
        required: ["project_id"],
        additionalProperties: false,
      },
    });

  it("are found when no tool lists them", async () => {
    expect(await findings([needs(text), tool({})])).toMatchObject([
      { code: "unknown_id", parameters: ["project_id"], reason: expect.stringMatching(/`project_id`/) },
    ]);
  });

  it.each([
    [
      "a tool lists them",
      text,
      tool({ name: "list_all", description: "Lists the projects of the tracker." }),
    ],
    [
      "the description says where they come from",
      { type: "string", description: "As returned by the tracker." },
      tool({}),
    ],
    ["the description has an example", { type: "string", description: "Key such as P-17." }, tool({})],
    ["the schema lists them", { ...text, enum: ["a", "b"] }, tool({})],
    ["the schema has a default", { ...text, default: "a" }, tool({})],
  ])("are no finding when %s", async (_why, id, other) => {
    expect(await codes(needs(id), other)).toEqual([]);
  });

  it("of an MCP server are not known from the tools of another server", async () => {
    const lists = tool(
      { name: "mcp_b_list", description: "Lists the projects of the tracker." },
      { origin: "mcp server b" },
    );
    expect(await codes({ ...needs(text), origin: "mcp server a" }, lists)).toEqual(["unknown_id"]);
    expect(await codes({ ...needs(text), origin: "mcp server b" }, lists)).toEqual([]);
  });
});

describe("what providers lose", () => {
  it("finds a schema that strict mode would change, unless its author means it", async () => {
    const headers = { type: "array", description: "One row.", items: { type: "object" } };
    const nested = { type: "object", additionalProperties: false, properties: { deep: { type: "object" } } };
    const found = await findings([withParameters({ nested })]);
    expect(found).toContainEqual(
      expect.objectContaining({ code: "strict_lost", reason: expect.stringMatching(/`nested\.deep`/) }),
    );
    expect(await codes(withParameters({ headers }))).toEqual([]);
    const branches = { type: "object", anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }] };
    expect(await codes(tool({ parameters: branches }))).toContain("strict_lost");
  });

  it("finds a description that is cut", async () => {
    const description = `Translates a text. ${"It knows many languages and dialects. ".repeat(40)}`;
    const [finding] = await findings([tool({ description })]);
    expect(finding).toMatchObject({
      code: "provider_loss",
      reason: expect.stringMatching(/OpenAI: the description is cut/),
    });
  });

  it("finds a schema that cannot be sent at all", async () => {
    const given = { ...tool({}), parameters: { type: "array", items: {} } };
    expect(await findings([given])).toMatchObject([
      { code: "provider_loss", reason: expect.stringMatching(/not sent at all/) },
    ]);
  });

  it("finds a name that leaves MCP clients no room, and one that models do not take", async () => {
    expect(await codes(tool({ name: "a".repeat(49) }))).toEqual([]);
    expect(await codes(tool({ name: "a".repeat(50) }))).toEqual(["name_long"]);
  });

  it("finds an expensive definition, by the limit of the config", async () => {
    const properties = Object.fromEntries(
      Array.from({ length: 100 }, (_, at) => [
        `value_${at}`,
        { type: "string", description: `Colour number ${at} of the chart.` },
      ]),
    );
    const given = withParameters(properties);
    expect(await findings([given])).toMatchObject([
      { code: "tokens_high", reason: expect.stringMatching(/about \d+ tokens/) },
    ]);
    const linter = await Linter.open([given, tool({ name: "other" })], { maxTokens: 20 });
    expect((await linter.lint(noSwitches)).filter(({ code }) => code === "tokens_high")).toHaveLength(2);
  });
});

describe("what a tool says about itself", () => {
  it.each([
    ["only reads and is dangerous", { name: "look" }, { readOnly: true, dangerous: true }],
    ["only reads, but deletes by its name", { name: "delete_all" }, { readOnly: true }],
    [
      "is said otherwise by its annotations",
      { name: "look" },
      { readOnly: true, annotations: { readOnlyHint: false } },
    ],
    [
      "is said by its server to read and to destroy",
      { name: "look" },
      { annotations: { readOnlyHint: true, destructiveHint: true } },
    ],
  ])("contradicts itself when it %s", async (_what, config, metadata) => {
    expect(await codes(tool({ ...config, metadata }))).toEqual(["annotations_contradict"]);
  });

  it.each([
    ["its name", { name: "remove_user" }, {}],
    ["its description", { name: "tidy", description: "Permanently deletes all drafts of a user." }, {}],
    ["its Chinese description", { name: "tidy", description: "删除用户的全部草稿。" }, {}],
    ["its server", { name: "tidy" }, { annotations: { destructiveHint: true } }],
  ])("is destructive by %s, and not marked", async (_what, config, metadata) => {
    expect(await codes(tool({ ...config, metadata }))).toEqual(["destructive_unmarked"]);
    expect(await codes(tool({ ...config, metadata: { ...metadata, dangerous: true } }))).toEqual([]);
  });
});

describe("rules are switched off", () => {
  const bad = tool({ name: "bad_one", description: "" }, { origin: "tools/bad.ts" });

  it("by the config, for some tools or for all rules", async () => {
    const other = tool({ name: "bad_two", description: "" });
    const lint = async (off: object) =>
      (await (await Linter.open([bad, other], { off })).lint(noSwitches)).map((one) => one.tool);
    expect(await lint({})).toEqual(["bad_one", "bad_two"]);
    expect(await lint({ description_missing: ["*_one"] })).toEqual(["bad_two"]);
    expect(await lint({ near_twin: ["*"] })).toEqual(["bad_one", "bad_two"]);
    expect(await lint({ all: ["bad_*"] })).toEqual([]);
  });

  it("by a comment in the tool's file, for that file and those rules", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/bad.ts": "// toolrack lint off: near_twin, description_missing\nexport default {};",
      "tools/worse.ts": "/* toolrack lint off: tokens_high */",
    });
    const worse = tool({ name: "worse", description: "" }, { origin: "tools/worse.ts" });
    const gone = tool({ name: "gone", description: "" }, { origin: "tools/gone.ts" });
    const tools = [bad, worse, gone];
    const switches = await readSwitches(workspace.directory, tools);
    const found = await (await Linter.open(tools)).lint(switches);
    expect(found.map((one) => one.tool)).toEqual(["worse", "gone"]);
  });
});

it("never throws, whatever a definition holds", async () => {
  const strange: unknown[] = [
    null,
    7,
    { properties: null },
    { properties: { a: 1, b: null, c: [] } },
    { required: 3, items: [] },
  ];
  const tools = strange.map((parameters, at) => ({
    ...tool({ name: `t${at}` }),
    parameters,
    metadata: { annotations: 3 },
  }));
  let deep: object = { type: "object" };
  for (let level = 0; level < 20_000; level++) deep = { type: "object", properties: { a: deep } };
  tools.push({ ...tool({ name: "deep" }), parameters: deep, metadata: { annotations: 3 } });
  const odd = { ...tool({ name: "odd" }), description: "\ud800 \u0000 ((((" };
  await expect(findings([...tools, odd])).resolves.toBeDefined();
});

it("finds nothing in the built-in tools and the example workspace", { timeout: 60_000 }, async () => {
  await using workspace = await TemporaryWorkspace.create();
  await cp(resolve(import.meta.dirname, "../../../../examples/workspace"), workspace.directory, {
    recursive: true,
    filter: (path) => !/\/(?:log|\.toolrack|node_modules)$/.test(path),
  });
  const app = await workspace.open();
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const servers = await startMcpServers(app, logger, () => {});
  try {
    app.registry.apply({
      put: [...metaTools(), readResultTool({ get: never, readResult: never }), scheduleTool(never, never)],
    });
    const tools = app.registry.list();
    for (const name of ["internal_file_delete", "dice", "reading-time", "mcp_calendar_weekday"])
      expect(tools.map((one) => one.name)).toContain(name);
    const linter = await Linter.open(tools, app.config.lint);
    expect(await linter.lint(await readSwitches(workspace.directory, tools))).toEqual([]);
  } finally {
    await servers?.close();
  }
});

it("has a test here for every rule", async () => {
  const { readFile } = await import("node:fs/promises");
  const text = await readFile(import.meta.filename, "utf8");
  expect(lintRules.filter((rule) => !text.includes(`"${rule}"`))).toEqual([]);
});
