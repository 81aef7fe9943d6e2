import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { promisify } from "node:util";
import { LLMock } from "@copilotkit/aimock";
import {
  type ChatMessage,
  ChatService,
  type ChatSession,
  type MessagePart,
  type OpenedChat,
  openChatService,
  type ShownApproval,
  ToolsService,
  type TurnEvent,
  type TurnFeed,
} from "toolrack";
import { expect, expectTypeOf, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

const tools = `
import { Tool } from "@toolrack/core";
export const double = Tool.define({ name: "double", description: "Doubles.", metadata: { readOnly: true },
  parameters: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
  execute: async ({ input }) => String(2 * input.n) });
`;

it("gives a program the services by their names, with everything in reach", { timeout: 60_000 }, async () => {
  const mock = new LLMock({ port: 0 });
  await mock.start();
  mock.on({ predicate: ({ messages }) => messages.at(-1)?.role === "tool" }, { content: "It is 42." });
  mock.on({ predicate: () => true }, { toolCalls: [{ name: "double", arguments: '{"n":21}' }] });
  const config = { builtins: false, providers: { some: { baseURL: `${mock.url}/v1`, models: ["a"] } } };
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": `export default ${JSON.stringify(config)};`,
    "tools/some.js": tools,
  });
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  {
    await using opened = await openChatService(workspace.directory, { logger });
    expectTypeOf(opened).toExtend<OpenedChat>();
    expect(opened.chat).toBeInstanceOf(ChatService);
    expect(opened.tools).toBeInstanceOf(ToolsService);
    expect((await opened.tools.getTools()).infos.has("double")).toBe(true);
    expect((await opened.tools.runTools("double", { n: 4 })).result.content).toBe("8");
    // A name that is not there is answered with as many as are offered.
    const offered = (await opened.tools.getTools()).tools.length;
    const { result } = await opened.tools.runTools("nope", {});
    expect(result.content).toBe(
      `There is no tool named "nope" here. Use one of the ${offered} tools that you were given.`,
    );
    expect(result.error).toMatchObject({ code: "tool_not_found", message: result.content });
    // A message goes from handleStream over handleRunToolCall to runTools.
    const { tools } = opened;
    const runTools = tools.runTools.bind(tools);
    const ways: (string | undefined)[] = [];
    tools.runTools = (...given) => {
      ways.push(new Error("on the way").stack);
      return runTools(...given);
    };
    const session = await opened.chat.sessions.create();
    expectTypeOf(session).toEqualTypeOf<ChatSession>();
    const turn = await opened.chat.handleStream(session, { content: "Twice 21?" });
    expectTypeOf(turn.parts).toEqualTypeOf<MessagePart[]>();
    expectTypeOf(turn.feed).toEqualTypeOf<TurnFeed>();
    expectTypeOf(turn.done).resolves.toEqualTypeOf<ChatMessage>();
    expectTypeOf<Extract<TurnEvent, { type: "approval" }>["approval"]>().toEqualTypeOf<ShownApproval>();
    let said = "";
    turn.feed.follow(0, ({ data }) => {
      expectTypeOf(data).toEqualTypeOf<TurnEvent>();
      if (data.type === "text") said += data.text;
    });
    expect((await turn.done).status).toBe("completed");
    expect(said).toBe("It is 42.");
    expect(ways).toEqual([expect.stringMatching(/ChatService\.handleRunToolCall/)]);
    expect(turn.parts).toMatchObject([
      { type: "tool", name: "double", state: { status: "completed", output: "42" } },
      { type: "text", text: "It is 42." },
    ]);
    const calls = await (await opened.app.store()).calls.list({});
    expect(calls.items.map(({ toolName }) => toolName)).toEqual(["double", "nope", "double"]);
  }
  await mock.stop();
});

it("leaves nothing open when the workspace cannot be opened", async () => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { tools: 5 };",
  });
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  await expect(openChatService(workspace.directory, { logger })).rejects.toThrow();
  const left = await readdir(workspace.directory, { recursive: true });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(await readdir(workspace.directory, { recursive: true })).toEqual(left);
});

it("keeps no program alive once it is closed", { timeout: 60_000 }, async () => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
  });
  const lines = `
    import { openChatService } from "toolrack";
    const opened = await openChatService(process.argv[1]);
    await opened.close();
    console.log(JSON.stringify(process.getActiveResourcesInfo().filter((kind) => kind === "Timeout")));
  `;
  const words = ["--conditions=toolrack-source", "--input-type=module", "--eval", lines, workspace.directory];
  const { stdout } = await promisify(execFile)(process.execPath, words, { cwd: import.meta.dirname });
  expect(JSON.parse(stdout)).toEqual([]);
});
