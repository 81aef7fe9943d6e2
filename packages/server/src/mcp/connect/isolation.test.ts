import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Client } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { type RpcAnswer, ServedRack } from "../serve/testing/served-rack.ts";
import { processesWith } from "./testing/upstream-rack.fixture.ts";

const notes = fileURLToPath(new URL("./testing/notes-server.fixture.mjs", import.meta.url));

let count = 0;

/** Serves a rack with the stateful server `notes`. Its processes can be found by the variable `mark`. */
async function open(toolrack: object, env: object = {}): Promise<{ rack: ServedRack; mark: string }> {
  const id = `${process.pid}-${count++}`;
  const entry = {
    command: process.execPath,
    args: [notes],
    env: { ...env, TOOLRACK_TEST_NOTES: id },
    toolrack,
  };
  const rack = await ServedRack.open({ "mcp.json": JSON.stringify({ mcpServers: { notes: entry } }) });
  await rack.api("POST", "/api/mcp-servers/notes/restart");
  return { rack, mark: `TOOLRACK_TEST_NOTES=${id}` };
}

const textOf = ({ message }: RpcAnswer): string => message.result.content[0].text;

async function said(client: Client, name: string, text = ""): Promise<string> {
  const { content } = await client.callTool({ name: `mcp_notes_${name}`, arguments: { text } });
  return (content as { text: string }[])[0]?.text ?? "";
}

/** Calls a tool over the HTTP API, and returns its result. */
async function post(
  rack: ServedRack,
  name: string,
  { text = "", sessionID }: { readonly text?: string; readonly sessionID?: string } = {},
  token = rack.token,
) {
  const body = { arguments: { text }, ...(sessionID === undefined ? {} : { sessionID }) };
  const { result } = await rack.api("POST", `/api/tools/mcp_notes_${name}/calls`, body, { token });
  return result;
}

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    if (tries > 1_500) throw new Error("It never came true.");
    await delay(20);
  }
}

const limited = { tools: ["mcp:notes"] };

describe("a server with isolation by token", { timeout: 60_000 }, () => {
  it("keeps the state of tokens apart, whichever way they call", async () => {
    const { rack, mark } = await open({ isolation: "token" });
    await using _ = rack;
    const [one, other] = [await rack.issue(limited), await rack.issue(limited)];
    await rack.call("modern", "mcp_notes_remember", { text: "of one" }, { token: one });
    await rack.call("legacy", "mcp_notes_remember", { text: "of other" }, { token: other });
    expect(textOf(await rack.call("modern", "mcp_notes_recall", {}, { token: one }))).toBe("of one");
    expect(textOf(await rack.call("modern", "mcp_notes_recall", {}, { token: other }))).toBe("of other");
    expect(textOf(await rack.call("modern", "mcp_notes_recall"))).toBe("");
    // Resources come from the same process.
    const read = { jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri: "notes://all" } };
    const { message } = await rack.post("modern", read, { token: other });
    expect(message.result.contents[0].text).toBe("of other");
    // Where a tool calls the tool, the caller of the first one counts.
    const nested = { name: "mcp_notes_recall", arguments: {} };
    expect(textOf(await rack.call("modern", "toolrack_call", nested, { token: one }))).toBe("of one");
    expect(await post(rack, "recall", {}, one)).toMatchObject({ content: "of one" });
    const toolCall = { id: "1", type: "function", function: { name: "mcp_notes_recall", arguments: "{}" } };
    const answers = await rack.api("POST", "/openai/tool-calls", [toolCall], { token: other });
    expect(answers[0].content).toContain("of other");
    expect((await rack.api("GET", "/api/mcp-servers/notes")).connections).toBe(3);
    expect((await processesWith(mark)).length).toBeGreaterThanOrEqual(3);
  });

  it("gives each token's process a name of its own for files", async () => {
    const { rack } = await open({ isolation: "token" }, { PLACE: `\${callerId}` });
    await using _ = rack;
    const token = await rack.issue(limited);
    const [{ id = "" } = {}] = await rack.serving.store.tokens.list();
    expect(textOf(await rack.call("modern", "mcp_notes_who", {}, { token }))).toBe(`nobody in ${id}`);
    expect(textOf(await rack.call("modern", "mcp_notes_who"))).toBe("nobody in master");
  });
});

describe("a server with isolation by session", { timeout: 60_000 }, () => {
  it("keeps sessions of one token apart, and ends the process with the session", async () => {
    const { rack, mark } = await open({ isolation: "session" });
    await using _ = rack;
    const [one, other] = [await rack.connect("legacy"), await rack.connect("legacy")];
    await said(one, "remember", "of one");
    await said(other, "remember", "of other");
    expect([await said(one, "recall"), await said(other, "recall")]).toEqual(["of one", "of other"]);
    const transport = one.transport as unknown as { terminateSession(): Promise<void> };
    await transport.terminateSession();
    await eventually(async () => (await rack.api("GET", "/api/mcp-servers/notes")).connections === 1);
    await eventually(async () => (await processesWith(mark)).length === 1);
    expect(await said(other, "recall")).toBe("of other");
  });

  it("takes the session that a caller names, or else one for the whole token", async () => {
    const { rack } = await open({ isolation: "session" });
    await using _ = rack;
    const token = await rack.issue(limited);
    await post(rack, "remember", { text: "in a", sessionID: "a" }, token);
    await post(rack, "remember", { text: "in none" }, token);
    expect(await post(rack, "recall", { sessionID: "a" }, token)).toMatchObject({ content: "in a" });
    expect(await post(rack, "recall", {}, token)).toMatchObject({ content: "in none" });
    expect(textOf(await rack.call("modern", "mcp_notes_recall", {}, { token }))).toBe("in none");
    const _meta = { "toolrack/sessionID": "a" };
    const params = { name: "mcp_notes_recall", arguments: {}, _meta };
    const named = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
    expect(textOf(await rack.post("modern", named, { token }))).toBe("in a");
    // The same name of another token is another session.
    expect(textOf(await rack.post("modern", named))).toBe("");
  });
});

describe("the connections of a server that keeps its callers apart", { timeout: 60_000 }, () => {
  it("are limited, for all and for each token, and a call beyond that says so", async () => {
    const { rack } = await open({ isolation: "session", limits: { connections: 3 } });
    await using _ = rack;
    const token = await rack.issue(limited);
    const call = (sessionID: string, asked = token) => post(rack, "recall", { sessionID }, asked);
    expect((await call("1")).type).toBe("text");
    expect((await call("2")).type).toBe("text");
    const { error } = await call("3");
    expect(error.message).toContain('The MCP server "notes" has 2 of its 3 connections for this token');
    expect(error.message).toContain("toolrack.limits.connections");
    expect((await call("1", rack.token)).type).toBe("text");
    expect((await call("2", rack.token)).error.message).toContain("has 3 connections for its callers");
    expect((await call("1")).type).toBe("text");
  });

  it("end when nobody used them for a while, and their place is free again", async () => {
    const { rack, mark } = await open({ isolation: "session", limits: { connections: 1, rest: 200 } });
    await using _ = rack;
    const call = (sessionID: string, name: string, text: string) => post(rack, name, { text, sessionID });
    // A call that takes longer than the limit keeps its connection.
    expect((await call("1", "wait", "700")).type).toBe("text");
    await eventually(async () => (await rack.api("GET", "/api/mcp-servers/notes")).connections === 0);
    await eventually(async () => (await processesWith(mark)).length === 0);
    await call("2", "remember", "new");
    expect((await rack.api("GET", "/api/mcp-servers/notes")).tools).toBe(5);
  });

  it("show nobody else's lines in their errors", async () => {
    const { rack } = await open({ isolation: "token", limits: { connections: 4 } });
    await using _ = rack;
    const token = await rack.issue(limited);
    await rack.call("modern", "mcp_notes_shout", { text: "the other one" }, { token });
    const log = await rack.api("GET", "/api/mcp-servers/notes/log");
    expect(JSON.stringify(log)).toContain("stderr of the other one");
    const dying = await rack.call("modern", "mcp_notes_remember", { text: "die" });
    expect(JSON.stringify(dying.message)).not.toContain("the other one");
  });
});

it("a server that all callers share says nothing of connections, and has one process", async () => {
  const { rack, mark } = await open({});
  await using _ = rack;
  const token = await rack.issue(limited);
  await rack.call("modern", "mcp_notes_remember", { text: "shared" }, { token });
  expect(textOf(await rack.call("modern", "mcp_notes_recall"))).toBe("shared");
  expect((await rack.api("GET", "/api/mcp-servers/notes")).connections).toBeUndefined();
  expect(await processesWith(mark)).toHaveLength(1);
}, 60_000);
