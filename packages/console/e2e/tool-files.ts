/** The tools of the workspace that the browser tests open. */
export const toolFiles: Readonly<Record<string, string>> = {
  "tools/hello-world.ts": `import { Tool } from "@toolrack/core";

export const helloWorld = Tool.define({
  name: "hello_world",
  displayName: "Hello World/问候",
  description: "Greets somebody by name. 按名字问候。",
  parameters: {
    type: "object",
    properties: {
      name: { type: "string", description: "Whom to greet." },
      language: { type: "string", enum: ["en", "zh"], default: "en", description: "The language." },
    },
    required: ["name"],
  },
  metadata: { category: "text", tags: ["greeting"], readOnly: true },
  execute: async (context) => {
    const { name, language } = context.input;
    const counted = await context.call("count_letters", { text: name });
    return (language === "zh" ? "你好，" : "Hello, ") + name + "! Letters: " + counted.content;
  },
});

export const countLetters = Tool.define({
  name: "count_letters",
  description: "Counts the letters of a text.",
  parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  metadata: { category: "text", tags: ["counting"], readOnly: true },
  execute: async ({ input }) => String([...input.text].length),
});
`,
  "tools/reports/report.ts": `import { Tool } from "@toolrack/core";

export const report = Tool.define({
  name: "report",
  description: "Writes a report in Markdown, step by step.",
  parameters: {
    type: "object",
    properties: {
      title: { type: "string", default: "Weekly report" },
      steps: { type: "integer", minimum: 1, maximum: 50, default: 3 },
      audience: { anyOf: [{ type: "string", enum: ["team", "board"] }, { type: "null" }], description: "For whom." },
      filters: {
        type: "object",
        properties: { since: { type: "string", format: "date" }, labels: { type: "array", items: { type: "string" } } },
        required: ["labels"],
      },
      output: {
        oneOf: [
          { title: "As a file", type: "object", properties: { kind: { const: "file" }, path: { type: "string" } }, required: ["kind", "path"] },
          { title: "As mail", type: "object", properties: { kind: { const: "mail" }, to: { type: "string", format: "email" } }, required: ["kind", "to"] },
        ],
      },
      headers: { type: "object", additionalProperties: { type: "string" } },
      anything: {},
    },
  },
  metadata: { category: "reports", tags: ["markdown"] },
  execute: async (context) => {
    const { title, steps } = context.input;
    for (let step = 1; step <= steps; step++) {
      context.progress(step, steps, "Section " + step);
      await new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, steps > 20 ? 400 : 30);
        context.signal.addEventListener("abort", () => { clearTimeout(timer); reject(context.signal.reason); });
      });
    }
    return "# " + title + "\\n\\nAll **" + steps + "** sections are done.\\n\\n- first\\n- second\\n";
  },
});

export const inventory = Tool.define({
  name: "inventory",
  description: "Lists what is in stock, as data.",
  parameters: { type: "object", properties: {} },
  metadata: { readOnly: true },
  execute: async () => ({ items: [{ sku: "A-1", count: 3 }, { sku: "B-7", count: 0 }], updated: "2026-11-15" }),
});

export const longText = Tool.define({
  name: "long_text",
  description: "Answers with a long text.",
  parameters: { type: "object", properties: { lines: { type: "integer", default: 1000 } } },
  execute: async ({ input }) => Array.from({ length: input.lines }, (_, index) => "line " + index + " of the long text").join("\\n"),
});

export const bigData = Tool.define({
  name: "big_data",
  description: "Answers with tens of megabytes of data.",
  parameters: { type: "object", properties: {} },
  execute: async () => ({ rows: Array.from({ length: 300000 }, (_, index) => ({ index, text: "row " + index + " of data that goes on and on, as exports of databases do" })) }),
});

export const flaky = Tool.define({
  name: "flaky",
  description: "Fails when it is told to.",
  parameters: { type: "object", properties: { fail: { type: "boolean", default: true } } },
  execute: async ({ input }) => {
    if (input.fail) throw new Error("The upstream answered 503; it is down for maintenance until 14:00.");
    return "fine";
  },
});
`,
  "tools/drafts.ts": `import { Tool } from "@toolrack/core";

export const deleteDraft = Tool.define({
  name: "delete_draft",
  displayName: "Drafts/删除草稿",
  description: "Deletes a draft for good.",
  parameters: {
    type: "object",
    properties: { path: { type: "string", description: "The draft." }, force: { type: "boolean", default: false } },
    required: ["path"],
  },
  metadata: { category: "drafts", dangerous: true, confirm: "Delete this draft for good?" },
  execute: async ({ input }) => "deleted " + input.path,
});
`,
};

/** A tool that takes a minute, tells of its progress and can be cancelled. */
export const slowToolFile = `import { Tool } from "@toolrack/core";
export const slow = Tool.define({
  name: "slow",
  description: "Takes a while.",
  parameters: { type: "object", properties: {} },
  execute: async (context) => {
    for (let step = 1; step <= 600; step++) {
      context.progress(step, 600, "Step " + step);
      await new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, 100);
        context.signal.addEventListener("abort", () => { clearTimeout(timer); reject(context.signal.reason); });
      });
    }
    return "done";
  },
});
`;

/** A prompt, a resource and a template. */
export const offers = `import { Prompt, Resource } from "@toolrack/core";
export const all = [
  Prompt.define({ name: "greet", title: "Greet somebody", arguments: [{ name: "who", required: true }], messages: ({ who }) => "Hello " + who }),
  Resource.define({ uri: "note://rows", name: "rows", mimeType: "application/json", read: () => JSON.stringify([{ a: 2, b: "x" }, { a: 10, b: "y" }]) }),
  Resource.define({ uriTemplate: "many://{kind}/{id}", name: "many", read: ({ kind, id }) => kind + " number " + id }),
];
`;

/** A tool with all that a single-file tool can declare. */
export const weather = `module.exports = {
  getMetadata() { return { id: "weather-report", name: "Weather report", description: "Tells the weather.", version: "1.4.0", author: "Ada" }; },
  getDependencies() { return {}; },
  getSchema() { return { parameters: { type: "object", properties: { city: { type: "string" } } },
    environment: { type: "object", properties: { UNIT: { type: "string", default: "celsius" }, KEY: { type: "string", format: "password" } }, required: ["KEY"] } }; },
  getBusinessErrors() { return [{ code: "NO_CITY", match: /no such city/i, description: "There is no such city.", solution: "Check the spelling." }]; },
  async execute(args) { return { city: args.city }; },
};
`;
