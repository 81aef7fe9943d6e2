import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromTables } from "./import/imported-tables.ts";
import { TestLibrary } from "./testing/library.fixture.ts";

const head = (name: string) => `---\nname: ${name}\ndescription: d\n---\n`;
const tool = (name: string) =>
  `{ name: "${name}", description: "d", parameters: { type: "object", properties: {}, additionalProperties: true } }`;

/** A skill with tools that are written like those of skill systems with a folder for each skill. */
const skill = (name: string, tools: readonly string[], body: string) => ({
  [`skills/${name}/SKILL.md`]: head(name),
  [`skills/${name}/index.js`]: `${body}\nmodule.exports = { execute, getTools: () => [${tools.map(tool)}] };`,
});

const notes = `
const fs = require("fs");
const path = require("path");
const DATA_BASE_PATH = process.env.DATA_BASE_PATH || path.join(process.cwd(), "data");
const USER_WORK_DIR = process.env.WORKING_DIRECTORY
  ? path.join(DATA_BASE_PATH, process.env.WORKING_DIRECTORY)
  : path.join(DATA_BASE_PATH, "work", process.env.USER_ID || "default");
async function execute(toolName, params, context) {
  const file = path.join(USER_WORK_DIR, "notes.txt");
  if (toolName === "add") {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.appendFileSync(file, "note\\n");
    return { size: fs.statSync(file).size };
  }
  if (toolName === "relative") return { text: fs.readFileSync("notes.txt", "utf8") };
  if (toolName === "where") {
    const { SKILL_PATH, USER_ID, EXPERT_ID, IS_ADMIN, IS_SKILL_CREATOR, SCRIPT_PATH } = process.env;
    const isReadable = fs.existsSync(path.join(SKILL_PATH, "SKILL.md"));
    return { isReadable, USER_ID, EXPERT_ID, IS_ADMIN, IS_SKILL_CREATOR, SCRIPT_PATH, admin: __ADMIN__, ...context };
  }
  throw new Error("Unknown tool: " + toolName);
}`;

const port = `
const net = require("net");
const dns = require("dns");
async function execute(toolName, { host, port, url }) {
  if (toolName === "api") {
    const authorization = "Bearer " + process.env.USER_ACCESS_TOKEN;
    return { text: await (await fetch(process.env.API_BASE, { headers: { authorization } })).text() };
  }
  if (toolName === "fetch") return { text: await (await fetch(url)).text() };
  if (toolName === "resolve") return new Promise((done) => dns.lookup(host, (error) => done({ found: !error })));
  return new Promise((done) => {
    const socket = new net.Socket();
    socket.setTimeout(2000);
    socket.on("connect", () => done({ port, open: true }));
    socket.on("timeout", () => done({ port, open: false }));
    socket.on("error", () => done({ port, open: false, message: "port is closed" }));
    socket.connect(port, host);
  });
}`;

const portPy = `
import socket
def get_tools():
    return [{"name": "check", "description": "d", "parameters": {"type": "object", "additionalProperties": True}}]
def execute(tool, params, context):
    s = socket.socket()
    return {"open": s.connect_ex((params["host"], params["port"])) == 0}
`;

/** Programs that take a blocked network for an answer. */
const commands = {
  address: `python3 -c 'import socket; print({True: 1, False: 0}[socket.socket().connect_ex(("10.0.0.1", 22)) == 0])'`,
  name: `python3 -c 'import json, socket\ntry: socket.getaddrinfo("example.com", 80)\nexcept OSError: print(json.dumps({"found": False}))'`,
  proxy: `node proxy.js`,
  child: `node child.js`,
  local: `python3 -c 'import json, socket; print(json.dumps({"me": socket.gethostbyname(socket.gethostname())}))'`,
};
const childJs = `exports.execute = () => {
  const { status } = require("child_process").spawnSync("python3", ["-c", "import socket; socket.create_connection(('10.0.0.1', 22))"]);
  return { open: status === 0 };
};`;
const proxyJs = `fetch("http://other.example/").then(({ status }) => console.log(JSON.stringify({ up: status < 400 })));`;

const printedPy = `
import json, sys
def execute(tool, params, context):
    return {"tool": tool}
if __name__ == "__main__" and "--get-tools" in sys.argv:
    print(json.dumps([{"name": "say", "description": "d", "parameters": {"type": "object", "properties": {}}}]))
`;

describe("a skill in a folder", () => {
  let fixture: TestLibrary;
  let service: Server;
  let address: string;

  beforeAll(async () => {
    service = createServer(({ headers }, response) =>
      response.end(`pong ${headers.authorization ?? ""}`),
    ).listen(0, "127.0.0.1");
    await once(service, "listening");
    address = `127.0.0.1:${(service.address() as AddressInfo).port}`;
    fixture = await TestLibrary.open({
      secrets: { APP_TOKEN: "a token of the application" },
      grants: {
        granted: {
          hosts: [address],
          environment: { API_BASE: `http://${address}/`, USER_ACCESS_TOKEN: "{{secret:APP_TOKEN}}" },
        },
        commands: { hosts: [address] },
      },
      files: {
        ...skill("notes", ["add", "relative", "where"], notes),
        ...skill("port", ["check", "fetch", "resolve"], port),
        ...skill("granted", ["api", "check", "fetch", "resolve"], port),
        "skills/commands/SKILL.md": head("commands"),
        "skills/commands/child.js": childJs,
        "skills/commands/proxy.js": proxyJs,
        "skills/commands/tools.json": JSON.stringify({
          tools: Object.entries(commands).map(([name, command]) => ({ name, type: "script", command })),
        }),
        "skills/portpy/SKILL.md": head("portpy"),
        "skills/portpy/index.py": portPy,
        ...skill("declared", ["use"], `const left = require("left"); const execute = () => left("a");`),
        "skills/declared/package.json": '{"dependencies":{"left":"^1.0.0"}}',
        "installed/node_modules/left/index.js": "module.exports = (text) => text + ' from the store';",
        "installed/node_modules/esm/package.json": '{"type":"module","exports":"./main.js"}',
        "installed/node_modules/esm/main.js": "export default 'an ES module from the store';",
        "skills/esm/SKILL.md": head("esm"),
        "skills/esm/package.json": '{"dependencies":{"esm":"1"}}',
        "skills/esm/index.mjs": `import text from "esm";\nexport const execute = () => text;\nexport const getTools = () => [${tool("use")}];`,
        ...skill("own", ["use"], `const own = require("own"); const execute = () => own;`),
        "skills/own/node_modules/own/index.js": "module.exports = 'from its own folder';",
        ...skill("lacks", ["use"], `const execute = () => require("nowhere-to-be-found");`),
        "skills/printed/SKILL.md": head("printed"),
        "skills/printed/index.py": printedPy,
        "skills/resident/SKILL.md": head("resident"),
        "skills/resident/index.js": `if (process.env.RESIDENT_MODE) process.stdin.on("data", () => {});\nmodule.exports = {};`,
        "skills/lines/SKILL.md": head("lines"),
        "skills/lines/index.js": `require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
          const { command, task_id } = JSON.parse(line);
          if (command === "invoke") console.log(JSON.stringify({ task_id, result: 1 }));
        });`,
      },
    });
  });
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
    service.close();
  });

  const run = async (name: string, input: Record<string, unknown> = {}) =>
    fixture.registry.execute(name, input, { caller: "ann" });

  it("keeps what it writes, where the variables of such skills say, and works there", async () => {
    expect((await run("notes__add")).structured).toEqual({ size: 5 });
    expect((await run("notes__add")).structured).toEqual({ size: 10 });
    expect((await run("notes__relative")).structured).toEqual({ text: "note\nnote\n" });
  });

  it("is told who calls, and that it has no rights of its own", async () => {
    expect((await run("notes__where")).structured).toMatchObject({
      ...{ isReadable: true, USER_ID: "ann", EXPERT_ID: "", SCRIPT_PATH: "index.js" },
      ...{ IS_ADMIN: "false", IS_SKILL_CREATOR: "false", admin: false },
      ...{ userId: "ann", isAdmin: false, workingDirectory: "work" },
    });
  });

  it.each([
    ["port__check", { host: "10.0.0.1", port: 22 }, "10.0.0.1:22"],
    ["port__check", { host: "127.0.0.1", port: 22 }, "127.0.0.1:22"],
    ["port__check", { host: "example.com", port: 443 }, "example.com"],
    ["port__resolve", { host: "example.com" }, "example.com"],
    ["portpy__check", { host: "10.0.0.1", port: 22 }, "10.0.0.1:22"],
  ])(
    "fails when its network is blocked, instead of calling a port closed: %s %j",
    async (name, input, wanted) => {
      const { type, content } = await run(name, input);
      expect(type).toBe("error");
      expect(content).toContain(`wanted to reach ${wanted}`);
      expect(content).toContain(`sandbox: { grants: { "${name.split("__")[0]}": { hosts: ["${wanted}"] }`);
    },
  );

  it.each([
    ["address", "a host"],
    ["name", "a host"],
    ["child", "a host"],
    ["proxy", "other.example:80"],
  ])("fails when a program of its own takes a blocked network for an answer: %s", async (name, wanted) => {
    const { type, content } = await run(`commands__${name}`);
    expect(type).toBe("error");
    expect(content).toContain(`commands/${name} wanted to reach ${wanted}, and has no network access there`);
    expect(content).toContain(`sandbox: { grants: { "commands": { hosts: ["${address}",`);
  });

  it("may look up its own name without a network", async () => {
    expect((await run("commands__local")).structured).toEqual({ me: "127.0.0.1" });
  });

  it("reaches the hosts that it is granted, and no others", async () => {
    expect((await run("granted__fetch", { url: `http://${address}/` })).structured).toEqual({
      text: "pong ",
    });
    const refused = await run("granted__fetch", { url: "http://other.example/" });
    expect(refused.type).toBe("error");
    expect(refused.content).toContain("wanted to reach other.example:80");
    // Raw connections have no way out: the egress proxy speaks HTTP.
    const [host, port] = address.split(":");
    const raw = await run("granted__check", { host, port: Number(port) });
    expect(raw.content).toContain("Granted hosts are reached by HTTP and HTTPS only");
    expect((await run("port__fetch", { url: `http://${address}/` })).content).toContain(
      `wanted to reach ${address}`,
    );
  });

  it("finds the variables that it is granted, with secrets by reference that its answer does not show", async () => {
    expect((await run("granted__api")).structured).toEqual({ text: "pong Bearer [redacted]" });
  });

  it("has the packages of its package.json and of its own node_modules", async () => {
    expect((await run("declared__use")).content).toBe("a from the store");
    expect(fixture.installed).toContainEqual({ left: "^1.0.0" });
    expect((await run("esm__use")).content).toBe("an ES module from the store");
    expect((await run("own__use")).content).toBe("from its own folder");
  });

  it("may print its tools when it is asked with --get-tools, as Python skills do", async () => {
    expect((await run("printed__say")).structured).toEqual({ tool: "say" });
  });

  it("says where a package goes that it lacks", async () => {
    expect((await run("lacks__use")).content).toContain(
      'Add "nowhere-to-be-found" to the dependencies of package.json in the folder of the skill "lacks"',
    );
  });

  it("that is a process of its own is refused with a sentence that says so", async () => {
    expect(fixture.library.require("resident").warnings.join()).toContain("It is a resident tool");
    expect(fixture.library.require("lines").warnings.join()).toContain("It is a resident tool");
    const rows = {
      skills: [{ id: "s1", name: "Old" }],
      skill_tools: [
        { id: "t1", skill_id: "s1", name: "a", script_path: "index.js", is_resident: 1 },
        { id: "t2", skill_id: "s1", name: "b", script_path: "resident://a" },
        { id: "t3", skill_id: "s1", name: "c", script_path: "index.js", is_resident: 0 },
      ],
    };
    const { bundles } = fromTables(new Map(Object.entries(rows)), true);
    const files = [
      { path: "index.js", content: Buffer.from("exports.execute = () => 1"), executable: false },
    ];
    await fixture.library.add({ ...bundles[0]!, files });
    expect(fixture.library.failureOf("t1")).toContain("It is a resident tool");
    expect(fixture.library.failureOf("t2")).toContain("It is a resident tool");
    expect((await run("t3")).structured).toBe(1);
  });

  it("keeps serving its last good version while its file is broken", async () => {
    const index = "skills/greeter/index.js";
    const good = (word: string) =>
      `const execute = () => "${word}";\nmodule.exports = { execute, getTools: () => [${tool("greet")}] };`;
    await fixture.write("skills/greeter/SKILL.md", head("greeter"));
    await fixture.write(index, good("hello"));
    await fixture.library.reload();
    expect((await run("greeter__greet")).content).toBe("hello");
    await fixture.write(index, `${good("broken")} }`);
    expect((await run("greeter__greet")).content).toBe("hello");
    await fixture.library.reload();
    expect((await run("greeter__greet")).content).toBe("hello");
    expect(fixture.library.failedFolders()).toEqual([
      {
        folder: join("skills", "greeter"),
        reason: expect.stringMatching(/Unexpected token.*last good version/s),
        code: "module_fails",
        details: { file: "index.js", said: expect.stringContaining("Unexpected token"), isServed: true },
      },
    ]);
    await fixture.write("skills/greeter/SKILL.md", "---\nname: [\n---\n");
    await fixture.library.reload();
    expect(fixture.library.failedFolders()).toMatchObject([
      { code: "front_matter_invalid", details: { line: 2, isServed: true } },
    ]);
    expect((await run("greeter__greet")).content).toBe("hello");
    await fixture.write("skills/greeter/SKILL.md", head("greeter"));
    await fixture.write(index, good("hi"));
    await fixture.library.reload();
    expect((await run("greeter__greet")).content).toBe("hi");
    expect(fixture.library.failedFolders()).toEqual([]);
  });

  it.each([
    ["index.js", "exports.execute = () => process.env.SKILL_NAME;", "exports.execute = () => {"],
    ["index.mjs", "export const execute = async () => process.env.SKILL_NAME;", "export const execute = ("],
    [
      "index.py",
      "import os\ndef execute(tool, params, context):\n    return os.environ['SKILL_NAME']",
      "def execute(tool, params, context):\n  return (",
    ],
  ])(
    "keeps serving its last good version when %s beside a tools.json is broken",
    async (file, good, broken) => {
      const name = `listed-${file.split(".")[1]}`;
      const say = async () => (await run(`listed_${file.split(".")[1]}__say`)).content;
      await fixture.write(`skills/${name}/SKILL.md`, head(name));
      await fixture.write(`skills/${name}/tools.json`, '{"tools":[{"name":"say","type":"script"}]}');
      await fixture.write(`skills/${name}/${file}`, good);
      await fixture.library.reload();
      expect(await say()).toBe(name);
      await fixture.write(`skills/${name}/${file}`, broken);
      await fixture.library.reload();
      expect(await say()).toBe(name);
      expect(fixture.library.failedFolders()).toMatchObject([
        { reason: expect.stringMatching(new RegExp(`${file} cannot be loaded.*last good version`, "s")) },
      ]);
      // Only its language is checked: what it needs when it runs may be missing now.
      await fixture.write(
        `skills/${name}/${file}`,
        `${good}\n${file.endsWith("py") ? "1/0" : "nowhere();"}\n`,
      );
      await fixture.library.reload();
      expect(fixture.library.failedFolders()).toEqual([]);
      await fixture.write(`skills/${name}/${file}`, good);
      await fixture.library.reload();
    },
  );
});
