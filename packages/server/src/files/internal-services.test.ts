import { Tool } from "@toolrack/core";
import { expect, it } from "vitest";
import { upstreamOrigin } from "../config/index.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

const tool = (name: string, handler: string) =>
  `module.exports = { name: '${name}', description: 'x', inputSchema: { type: 'object', properties: {} }, handler: ${handler} }`;

it("InternalToolLoader and McpService read the rack as contract 1 writes them", async () => {
  await using workspace = await TemporaryWorkspace.create({
    "tools/text/upper.js": tool("upper", "async () => ({ content: [{ type: 'text', text: 'UP' }] })"),
    "tools/text/look.js": tool(
      "look",
      `async (args, ctx) => {
        const { InternalToolLoader, McpService } = require("toolrack");
        const loader = new InternalToolLoader(ctx);
        const tools = loader.loadAllTools();
        const one = new InternalToolLoader(ctx);
        one.loadToolFile("tools/text/upper.js");
        const folder = new InternalToolLoader(ctx);
        folder.loadToolsFromDirectory("tools/text", "text");
        const { join } = require("path");
        const absolute = new InternalToolLoader(ctx);
        absolute.loadToolFile(join(__dirname, "upper.js"), "text");
        const whole = new InternalToolLoader(ctx);
        whole.loadToolsFromDirectory(whole.toolsDir);
        const mcp = new McpService(ctx);
        await mcp.ensureInitialized();
        return {
          names: [...tools.keys()].filter((name) => name.startsWith("internal_text_")),
          groups: loader.groups.get("text"),
          one: [...one.tools.keys()],
          folder: [...folder.tools.keys()].sort(),
          absolute: [...absolute.tools.keys()],
          whole: Object.fromEntries(whole.groups),
          said: (await tools.get("internal_text_upper").handler({})).content[0].text,
          servers: await mcp.getInstalledServers(),
        };
      }`,
    ),
  });
  const { registry } = await workspace.open({ builtins: false });
  expect((await registry.execute("internal_text_look", {})).structured).toEqual({
    names: ["internal_text_look", "internal_text_upper"],
    groups: ["internal_text_look", "internal_text_upper"],
    one: ["internal_text_upper"],
    folder: ["internal_text_look", "internal_text_upper"],
    absolute: ["internal_text_upper"],
    whole: { text: ["internal_text_look", "internal_text_upper"] },
    said: "UP",
    servers: [],
  });
});

it("ctx.service has tools and mcp, whose calls are children of the tool's own call", async () => {
  await using workspace = await TemporaryWorkspace.create({
    "tools/text/upper.js": tool("upper", "async () => ({ content: [{ type: 'text', text: 'UP' }] })"),
    "tools/text/chat.js": tool(
      "chat",
      `async (args, ctx) => {
        const offered = await ctx.service.tools.getTools();
        const ran = await ctx.service.tools.runTools("internal_text_upper", {});
        const called = await ctx.service.mcp.callInternalTool("internal_text_upper", {});
        const unknown = await ctx.service.tools.runTools("nonsense", {}).catch((error) => error.message);
        return { first: offered.find((tool) => tool.function.name === "internal_text_upper"), ran, called, unknown };
      }`,
    ),
  });
  const { registry } = await workspace.open({ builtins: false });
  const { structured } = await registry.execute("internal_text_chat", {}, { callId: "c" });
  const said = { content: [{ type: "text", text: "UP" }] };
  expect(structured).toMatchObject({
    first: { type: "function", function: { description: "x" } },
    ran: said,
    called: said,
    unknown: expect.stringContaining("未知的工具: nonsense"),
  });
  const inner = registry.getCallHistory(10).filter(({ toolName }) => toolName === "internal_text_upper");
  expect(inner.map(({ parentCallId }) => parentCallId)).toEqual(["c", "c"]);
});

it("the files of contract 1 give the names and groups that it shows; index.js and hidden files are left out", async () => {
  const fails = "throw new Error('was loaded')";
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.mjs": "export default { tools: ['internal-tools'] };",
    "internal-tools/index.js": fails,
    "internal-tools/.hidden.js": fails,
    "internal-tools/file/read.js": tool("read", "async () => ''"),
    "internal-tools/file/write.js": tool("write", "async () => ''"),
    "internal-tools/code/search.js": tool("search", "async () => ''"),
    "internal-tools/system/execute.js": tool(
      "execute",
      `async (args, ctx) => {
        const loader = new (require("toolrack").InternalToolLoader)(ctx);
        loader.loadToolsFromDirectory(loader.toolsDir);
        return Object.fromEntries(loader.groups);
      }`,
    ),
  });
  const { registry } = await workspace.open({ builtins: false });
  expect((await registry.execute("internal_system_execute", {})).structured).toEqual({
    file: ["internal_file_read", "internal_file_write"],
    code: ["internal_code_search"],
    system: ["internal_system_execute"],
  });
});

it("the metadata of contract 1 is kept", async () => {
  const metadata = { type: "internal", source: "toolFileName.js" };
  await using workspace = await TemporaryWorkspace.create({
    "tools/file/peek.js": tool("peek", `async () => '', metadata: ${JSON.stringify(metadata)}`),
  });
  const { registry, report } = await workspace.open({ builtins: false });
  expect(report.files[0]).toMatchObject({ status: "loaded", warnings: [] });
  expect(registry.get("internal_file_peek")?.metadata).toEqual({ category: "file", ...metadata });
});

it("getTools and runTools written as in contract 1 reach the tools of MCP servers, also with underscores in the key", async () => {
  await using workspace = await TemporaryWorkspace.create({
    "tools/chat/tools.js": tool(
      "tools",
      `async (args, ctx) => {
        await ctx.service.mcp.ensureInitialized();
        const installedServers = await ctx.service.mcp.getInstalledServers();
        const runningServers = installedServers.filter((server) =>
          server.status === "running" && server.config?.enabled !== false
        );
        const allMcpTools = [];
        for (const server of runningServers) {
          const serverTools = await ctx.service.mcp.getTool(server.key);
          allMcpTools.push(...serverTools.tools);
        }
        allMcpTools.push(...ctx.service.mcp.getInternalTools());
        const run = await ctx.service.tools.runTools("mcp_my_server_read_file", {});
        const called = await ctx.service.mcp.callTool("my_server", "read_file", {});
        return { names: allMcpTools.map(({ name }) => name), run, called };
      }`,
    ),
  });
  const { registry } = await workspace.open({ builtins: false });
  registry.register(
    Tool.define({
      name: "mcp_my_server_read_file",
      parameters: { type: "object" },
      metadata: { mcp: upstreamOrigin({ server: "my_server", tool: "read_file" }) },
      execute: async () => "from the server",
    }),
  );
  const said = { content: [{ type: "text", text: "from the server" }] };
  expect((await registry.execute("internal_chat_tools", {})).structured).toEqual({
    names: ["mcp_my_server_read_file", "internal_chat_tools"],
    run: said,
    called: said,
  });
});

it("an application's own services of these names stay", async () => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.mjs": "export default { services: { mcp: { mine: () => 'mine' } } };",
    "tools/own.js": tool("own", "async (args, ctx) => ctx.service.mcp.mine()"),
  });
  const { registry } = await workspace.open({ builtins: false });
  expect((await registry.execute("internal_own", {})).content).toBe("mine");
});

it("Zod is provided to tool files, and one that is installed beside them comes first", async () => {
  await using workspace = await TemporaryWorkspace.create({
    "tools/add.ts": `import { z } from "zod";
      import { Tool } from "@toolrack/core";
      export default Tool.define({ name: "add", parameters: z.object({ a: z.number() }), execute: async ({ input }) => input.a + 1 });`,
    "tools/old.ts": `import { z } from "zod/v3";
      import { Tool } from "@toolrack/core";
      export default Tool.define({ name: "old", parameters: z.object({ a: z.number() }), execute: async ({ input }) => input.a + 2 });`,
    "tools/small.ts": `import * as z from "zod/v4/mini";
      import { Tool } from "@toolrack/core";
      export default Tool.define({ name: "small", parameters: z.object({ a: z.number() }), execute: async ({ input }) => input.a + 3 });`,
    "tools/colour.ts": `import { tool } from "@opencode-ai/plugin";
      export default tool({ description: "x", args: { hex: tool.schema.string() }, execute: async ({ hex }) => hex });`,
    "src/tools/own.js": tool("own", "async () => require('zod').z"),
    "src/tools/node_modules/zod/index.js": "exports.z = 'installed';",
    "toolrack.config.mjs": "export default { tools: ['tools', 'src/tools'] };",
  });
  const { registry } = await workspace.open({ builtins: false });
  expect((await registry.execute("add", { a: 1 })).content).toBe("2");
  expect((await registry.execute("add", { a: "x" })).error?.code).toBe("invalid_arguments");
  expect((await registry.execute("old", { a: 1 })).content).toBe("3");
  expect((await registry.execute("small", { a: 1 })).content).toBe("4");
  expect((await registry.execute("colour", { hex: "#fff" })).content).toBe("#fff");
  expect((await registry.execute("internal_own", {})).content).toBe("installed");
});
