import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { NewSkillTool, SkillFile } from "../store/skills.ts";
import { TestLibrary } from "./testing/library.fixture.ts";

const file = (path: string, text: string): SkillFile => ({
  path,
  content: Buffer.from(text),
  executable: false,
});

const indexJs = `
console.log("loading");
console.info("a library says hello");
const names = require("./names.json");
exports.getTools = () => [
  { name: "greet", description: "Greets.", parameters: { type: "object", properties: { who: { type: "string" } }, required: ["who"] } },
  { type: "function", function: { name: "fail", description: "Fails." } },
];
exports.execute = async (toolName, params, context) => {
  console.log("working {not json");
  if (toolName === "fail") throw new Error("no such city");
  if (toolName === "big") return { n: 12345678901234567890n, nothing: undefined };
  if (toolName === "envelope") return { success: false, error: "quota is used up" };
  if (toolName === "picture") return { data: { dataUrl: "data:image/png;base64,iVBORw0KGgo=", note: "cat" } };
  if (toolName === "escape") return { passwd: require("node:fs").existsSync("/etc/shadow"), env: Object.keys(process.env) };
  return { text: names.hello + " " + params.who, toolName, userId: context.userId, skillName: context.skillName };
};`;

const indexPy = `
import asyncio
print("noise")
def get_tools():
    return [{"name": "count", "description": "数数", "parameters": {"properties": {"n": {"type": "integer"}}}}]
async def execute(tool, params, context):
    print("more noise")
    if tool == "fail":
        raise ValueError("bad number")
    await asyncio.sleep(0)
    return {"sum": sum(range(params["n"])), "name": "数"}
`;

describe("a tool of type script", () => {
  let fixture: TestLibrary;
  let skillId: string;
  let count = 0;

  beforeAll(async () => {
    fixture = await TestLibrary.open({
      secrets: { KEY: "very-secret-value" },
      settings: { REGION: "eu" },
      environment: { OWN_TIMEOUT: "5000" },
      files: {
        "skills/hello/SKILL.md": "---\nname: hello\ndescription: Greets people.\n---\n# Hello\n",
        "skills/hello/index.js": indexJs,
        "skills/hello/names.json": '{"hello":"Hallo"}',
        "skills/numbers/SKILL.md": "---\nname: numbers\ndescription: Counts.\n---\n",
        "skills/numbers/index.py": indexPy,
        "skills/shell/SKILL.md": "---\nname: shell\ndescription: Shell scripts.\n---\n",
        "skills/shell/scripts/upper.sh": 'echo "$1" | tr a-z A-Z',
      },
    });
    const bundle = {
      skill: { name: "Scripts" },
      tools: [],
      files: [
        file("index.js", indexJs),
        file("names.json", '{"hello":"Hi"}'),
        file(
          "echo.js",
          "let t='';process.stdin.on('data',c=>t+=c).on('end',()=>{console.log('starting up');const {params,context}=JSON.parse(t);console.log(JSON.stringify({got:params,tool:context.toolName}));console.log('bye')})",
        ),
        file("pretty.js", "console.log('warning: x');console.log(JSON.stringify({a:[1,2]},null,2))"),
        file("silent.js", ""),
        file("number.js", "console.log('counting');console.log(42)"),
        file(
          "secrets.js",
          "let t='';process.stdin.on('data',c=>t+=c).on('end',()=>{const {params}=JSON.parse(t);console.log(JSON.stringify({...params,key:params.key.length}))})",
        ),
        file(
          "sneaky.js",
          "console.log(JSON.stringify({type:'text',content:'x',attachments:[{mime:'text/plain',url:'file:///etc/passwd'},{mime:'text/plain',url:'data:text/plain,hi'}]}))",
        ),
        file(
          "odd.py",
          "import sys\ndef execute(tool, params, context):\n    if tool == 'leaves': sys.exit(3)\n    return {'n': float('nan'), 'm': [float('inf'), 1.5], 't': (1, 2)}\n",
        ),
        file("garbage.js", "console.log('<<<%%%>>>')"),
        file("fails.js", "console.error('cannot open the ledger');process.exit(1)"),
        file(
          "failsjson.js",
          "console.log(JSON.stringify({success:false,error:'the ledger is closed'}));process.exit(1)",
        ),
        file("loops.js", "for(;;);"),
        file("forks.sh", "sleep 300 & sleep 300 & sleep 300"),
        file("floods.js", "const s='x'.repeat(1<<20);for(;;)require('node:fs').writeSync(1,s)"),
        file(
          "env.js",
          "console.log(JSON.stringify({key:process.env.KEY,skillKey:process.env.SKILL_KEY,all:Object.keys(process.env)}))",
        ),
        file("args.js", "console.log(process.argv.slice(2).join('+'))"),
        file(
          "net.js",
          "fetch('http://127.0.0.1:9/').then(()=>console.log('{\"reached\":true}'),e=>console.log(JSON.stringify({reached:false})))",
        ),
      ],
    };
    skillId = (await fixture.library.add(bundle)).id;
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  async function run(tool: Partial<NewSkillTool>, input: Record<string, unknown> = {}) {
    const { id } = await fixture.library.addTool(skillId, {
      name: `tool_${++count}`,
      type: "script",
      ...tool,
    });
    return fixture.registry.execute(id, input, { caller: "ann" });
  }

  it("calls execute of index.js, whatever is printed around it", async () => {
    const result = await run({ name: "greet", command: "node index.js" }, { who: "Ada" });
    expect(result.structured).toEqual({
      text: "Hi Ada",
      toolName: "greet",
      userId: "ann",
      skillName: "Scripts",
    });
  });

  it("says in the log of its call what it printed beside its answer", async () => {
    const lines: unknown[] = [];
    const stop = fixture.registry.subscribe(
      (event) => void (event.type === "log" && lines.push([event.level, event.text])),
    );
    await run({ command: "node index.js" }, { who: "Ada" });
    await run({ command: "node fails.js" });
    stop();
    expect(lines).toEqual([
      ["info", "loading"],
      ["info", "a library says hello"],
      ["info", "working {not json"],
      ["warn", "cannot open the ledger"],
    ]);
  });

  it("reads modules of either kind, whatever a package.json above says", async () => {
    const esm =
      "import { sep } from 'node:path';\nexport const execute = async (tool, { n }) => ({ n: n + sep.length });";
    for (const [name, text] of [
      ["esm.js", esm],
      ["esm.mjs", esm],
      ["common.cjs", "exports.execute = (tool, { n }) => ({ n: n + 1 })"],
    ] as const) {
      await fixture.library.update(skillId, {}, { [name]: file(name, text) });
      expect((await run({ command: `node ${name}` }, { n: 1 })).structured).toEqual({ n: 2 });
    }
  });

  it("needs no command where there is an index.js", async () => {
    expect((await run({}, { who: "Bo" })).structured).toMatchObject({ text: "Hi Bo" });
  });

  it("gives what the module threw, what JSON cannot hold, its envelope and its pictures", async () => {
    expect((await run({ name: "fail" })).content).toBe("no such city");
    expect((await run({ name: "big" })).structured).toEqual({ n: "12345678901234567890" });
    expect(await run({ name: "envelope" })).toMatchObject({ type: "error", content: "quota is used up" });
    expect(await run({ name: "picture" })).toMatchObject({
      structured: { data: { note: "cat", dataUrl: "[attached]" } },
      attachments: [{ mime: "image/png", url: "data:image/png;base64,iVBORw0KGgo=" }],
    });
  });

  it("gives a command its params and context, and takes the JSON out of what it prints", async () => {
    expect((await run({ name: "echo", command: "node echo.js" }, { a: 1 })).structured).toEqual({
      got: { a: 1 },
      tool: "echo",
    });
    expect((await run({ command: "node pretty.js" })).structured).toEqual({ a: [1, 2] });
  });

  it("takes a bare number after noise, and what Python knows beside JSON", async () => {
    expect((await run({ command: "node number.js" })).structured).toBe(42);
    const { structured } = await run({ command: "python3 odd.py" });
    expect(structured).toEqual({ n: null, m: [null, 1.5], t: [1, 2] });
    const { content } = await run({ name: "leaves", command: "python3 odd.py" });
    expect(content).toBe("odd.py ended with sys.exit(3) instead of returning a value.");
  });

  it("is given defaults and arguments, with the operator's secrets and never a caller's", async () => {
    const usage = JSON.stringify({
      parameters: { properties: { text: { type: "string" } } },
      defaults: { lang: "de" },
      arguments: { key: "{{secret:KEY}}" },
    });
    const { structured } = await run({ command: "node secrets.js", usage }, { text: "{{secret:KEY}}" });
    expect(structured).toEqual({ lang: "de", text: "{{secret:KEY}}", key: "very-secret-value".length });
  });

  it("gives data, not results: it attaches only what it carries itself", async () => {
    const result = await run({ command: "node sneaky.js" });
    expect(result).toMatchObject({ type: "json", structured: { type: "text", content: "x" } });
    expect(result.attachments).toEqual([{ type: "file", mime: "text/plain", url: "data:text/plain,hi" }]);
  });

  it("says so when a script prints nothing, prints garbage, or ends with a failure", async () => {
    expect((await run({ name: "s", command: "node silent.js" })).content).toContain(
      "Scripts/s printed nothing",
    );
    expect((await run({ command: "node garbage.js" })).content).toMatch(/printed no JSON.*<<<%%%>>>/);
    expect((await run({ command: "node fails.js" })).content).toMatch(/exit code 1.*cannot open the ledger/);
    expect((await run({ command: "node failsjson.js" })).content).toBe("the ledger is closed");
    expect((await run({ command: "node nowhere.js" })).type).toBe("error");
  });

  it("ends a script that loops, forks or floods", async () => {
    const usage = '{"parameters":{"properties":{}},"timeout":1500}';
    expect((await run({ command: "node loops.js", usage })).error?.name).toBe("ToolTimeoutError");
    expect((await run({ command: "sh forks.sh", usage })).type).toBe("error");
    expect((await run({ command: "node floods.js" })).type).toBe("error");
  });

  it("hands arguments to the command line where the usage says so", async () => {
    const usage =
      '{"parameters":{"properties":{"args":{"type":"array","items":{"type":"string"}}}},"argv":"args","output":"text"}';
    expect((await run({ command: "node args.js", usage }, { args: ["a b", "$(id)", "-x"] })).content).toBe(
      "a b+$(id)+-x",
    );
  });

  it("is given the environment that was declared for it, and nothing of the server's", async () => {
    process.env.TOOLRACK_TEST_LEAK = "x";
    const usage = '{"parameters":{"properties":{}},"environment":{"KEY":"{{secret:KEY}}"}}';
    // Only in the sandbox is the value seen; on its way back it is what the tool answers.
    const { structured } = await run({ command: "node env.js", usage });
    delete process.env.TOOLRACK_TEST_LEAK;
    const answer = structured as { key: string; skillKey: string; all: string[] };
    expect(answer.skillKey).toBe(answer.key);
    expect(answer.all).toContain("SKILL_ID");
    expect(answer.all).not.toContain("TOOLRACK_TEST_LEAK");
  });

  it("is given settings that it refers to, and what was set for it alone", async () => {
    const usage = '{"parameters":{"properties":{}},"environment":{"KEY":"{{setting:REGION}}-1"}}';
    const answer = (await run({ command: "node env.js", usage })).structured as {
      key: string;
      all: string[];
    };
    expect(answer.key).toBe("eu-1");
    expect(answer.all).toContain("OWN_TIMEOUT");
    const unset = '{"parameters":{"properties":{}},"environment":{"KEY":"{{setting:NOWHERE}}"}}';
    expect((await run({ command: "node env.js", usage: unset })).content).toContain(
      "toolrack settings set NOWHERE",
    );
  });

  it("has no network, no files of the machine and no more than it needs", async () => {
    expect((await run({ command: "node net.js" })).structured).toEqual({ reached: false });
    expect((await run({ name: "escape" })).structured).toMatchObject({ passwd: false });
  });

  it("that came from elsewhere gets neither secrets nor network until it is trusted", async () => {
    const tools: NewSkillTool[] = [
      {
        name: "env",
        type: "script",
        command: "node env.js",
        usage: '{"parameters":{"properties":{}},"environment":{"KEY":"{{secret:KEY}}"}}',
      },
      {
        name: "net",
        type: "script",
        command: "node env.js",
        usage: '{"parameters":{"properties":{}},"hosts":["example.com"]}',
      },
      { name: "web", type: "http", endpoint: "https://example.com/{{secret:KEY}}" },
    ];
    const foreign = await fixture.library.add({
      skill: { name: "Foreign", trusted: false },
      tools,
      files: [file("env.js", "console.log(JSON.stringify(process.env.KEY ?? null))")],
    });
    for (const { id } of foreign.tools) {
      const { type, content } = await fixture.registry.execute(id, {});
      expect([type, content]).toEqual(["error", expect.stringContaining("skills trust")]);
    }
    await fixture.library.update(foreign.id, { trusted: true });
    expect((await fixture.registry.execute(foreign.tools[0]!.id, {})).type).not.toBe("error");
  });

  describe("in a folder", () => {
    it("becomes tools by getTools of index.js, run in the sandbox only", async () => {
      const skill = fixture.library.require("hello");
      expect(skill.tools.map(({ name }) => name)).toEqual(["greet", "fail"]);
      const info = fixture.registry.get("hello__greet");
      expect(info).toMatchObject({ description: "Greets.", displayName: "hello/greet" });
      expect((await fixture.registry.execute("hello__greet", { who: "Zoë" })).structured).toMatchObject({
        text: "Hallo Zoë",
      });
      expect((await fixture.registry.execute("hello__greet", {})).error?.name).toBe("InvalidArgumentError");
    });

    it("becomes tools by index.py", async () => {
      expect((await fixture.registry.execute("numbers__count", { n: 5 })).structured).toEqual({
        sum: 10,
        name: "数",
      });
    });

    it("becomes a tool for every file in scripts", async () => {
      expect((await fixture.registry.execute("shell__upper", { args: ["hey"] })).content).toBe("HEY");
    });
  });
});
