import { LLMock } from "@copilotkit/aimock";
import { ChatService, type MessagePart, type OpenedChat, openChatService, ToolsService } from "toolrack";
import { expect, expectTypeOf, it } from "vitest";
import { TemporaryWorkspace } from "./testing/temporary-workspace.ts";

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
    const session = await opened.chat.sessions.create();
    const turn = await opened.chat.handleStream(session, { content: "Twice 21?" });
    expectTypeOf(turn.parts).toEqualTypeOf<MessagePart[]>();
    expect((await turn.done).status).toBe("completed");
    expect(turn.parts).toMatchObject([
      { type: "tool", name: "double", state: { status: "completed", output: "42" } },
      { type: "text", text: "It is 42." },
    ]);
    const calls = await (await opened.app.store()).calls.list({});
    expect(calls.items.map(({ toolName }) => toolName)).toEqual(["double", "double"]);
  }
  await mock.stop();
});

it("leaves nothing open when the workspace cannot be opened", async () => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { tools: 5 };",
  });
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  await expect(openChatService(workspace.directory, { logger })).rejects.toThrow();
});
