import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RpcAnswer, ServedRack } from "../serve/testing/served-rack.ts";

/** Keeps for each session whose it is, and answers every call with the credentials of its request. */
class PersonalServer {
  /** The Authorization headers of all requests. */
  readonly seen = new Set<string>();
  /** Requests whose credentials are not those with which their session began. */
  mixed = 0;
  readonly #sessions = new Map<string, string>();
  readonly #http: Server;

  constructor() {
    this.#http = createServer(async (incoming, outgoing) => {
      let body = "";
      for await (const piece of incoming) body += piece;
      const { authorization = "" } = incoming.headers;
      const send = (status: number, value?: object, headers: Record<string, string> = {}) => {
        outgoing.writeHead(status, { "content-type": "application/json", ...headers });
        outgoing.end(value === undefined ? undefined : JSON.stringify(value));
      };
      if (!authorization.startsWith("Bearer good-")) return send(401, { error: "no such user" });
      this.seen.add(authorization);
      if (incoming.method !== "POST") return send(405);
      const { id, method, params } = JSON.parse(body);
      if (id === undefined) return send(202);
      const known = incoming.headers["mcp-session-id"]?.toString();
      if (known !== undefined && this.#sessions.get(known) !== authorization) this.mixed++;
      const answer = (result: object, headers = {}) => send(200, { jsonrpc: "2.0", id, result }, headers);
      if (method === "initialize") {
        const session = String(this.#sessions.size + 1);
        this.#sessions.set(session, authorization);
        const { protocolVersion } = params;
        const serverInfo = { name: "personal", version: "1" };
        return answer(
          {
            protocolVersion,
            capabilities: { tools: {} },
            serverInfo,
            instructions: `You are ${authorization}.`,
          },
          { "mcp-session-id": session },
        );
      }
      if (method === "tools/list") {
        const names = authorization.includes("rich") ? ["whoami", "rich"] : ["whoami"];
        const inputSchema = { type: "object", properties: { plain: { type: "string" } } };
        const tools = names.map((name) => ({ name, description: name, inputSchema }));
        const telling = { name: "telling", description: `Calls with ${authorization}.`, inputSchema };
        return answer({ tools: authorization.includes("telling") ? [...tools, telling] : tools });
      }
      if (method !== "tools/call")
        return send(200, { jsonrpc: "2.0", id, error: { code: -32601, message: "?" } });
      // The answers arrive in another order than the calls.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
      const name = authorization.replace("Bearer good-", "").replace(/-secret.*/, "");
      return answer({
        content: [{ type: "text", text: `${name} ${params.arguments.plain ?? authorization}` }],
      });
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#http.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}/mcp`;
  }

  close(): void {
    this.#http.closeAllConnections();
    this.#http.close();
  }
}

const server = new PersonalServer();
let url: string;
beforeAll(async () => {
  url = await server.listen();
});
afterAll(() => server.close());

const notes = fileURLToPath(new URL("./testing/notes-server.fixture.mjs", import.meta.url));
const limited = { tools: ["mcp:personal", "mcp:notes"] };
const HEADER = "x-toolrack-caller-api-token";

function open(more: object = {}): Promise<ServedRack> {
  const personal = { url, type: "http", headers: { Authorization: "Bearer {{caller:API_TOKEN}}" }, ...more };
  return ServedRack.open({ "mcp.json": JSON.stringify({ mcpServers: { personal } }) });
}

const textOf = ({ message }: RpcAnswer): string => message.result.content[0].text;
const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
const namesIn = ({ message }: RpcAnswer): string[] =>
  message.result.tools.map(({ name }: { name: string }) => name);

describe("a server that takes credentials from its callers", { timeout: 60_000 }, () => {
  it("never mixes them in 200 interleaved calls of two callers, also of one token", async () => {
    await using rack = await open();
    const token = await rack.issue(limited);
    const callers = [
      { name: "ann", options: { token, headers: { [HEADER]: "good-ann-secret-1" } } },
      { name: "ben", options: { token, headers: { [HEADER]: "good-ben-secret-2" } } },
    ] as const;
    await rack.post("modern", list, callers[0].options);
    const calls = Array.from({ length: 200 }, async (_, index) => {
      const { name, options } = callers[index % 2 === 0 ? 0 : 1];
      const era = index % 3 === 0 ? "legacy" : "modern";
      const answer = await rack.call(era, "mcp_personal_whoami", { plain: String(index) }, options);
      expect(textOf(answer)).toBe(`${name} ${index}`);
    });
    await Promise.all(calls);
    expect(server.mixed).toBe(0);
    expect((await rack.api("GET", "/api/mcp-servers/personal")).connections).toBe(2);
  });

  it("takes what is stored for the caller's token, and the header before it", async () => {
    await using rack = await open();
    const [ann, ben] = [await rack.issue(limited, "ann"), await rack.issue(limited, "ben")];
    const ids = new Map((await rack.serving.store.tokens.list()).map(({ name, id }) => [name, id]));
    const store = (name: string, value: string) =>
      rack.api("PUT", `/api/secrets/token.${ids.get(name)}.API_TOKEN`, { value });
    await store("ann", "good-ann-secret-1");
    await store("ben", "good-ben-secret-2");
    await rack.post("modern", list, { token: ann });
    const whoami = (token: string, headers = {}) =>
      rack.call("modern", "mcp_personal_whoami", { plain: "x" }, { token, headers });
    expect(textOf(await whoami(ann))).toBe("ann x");
    expect(textOf(await whoami(ben))).toBe("ben x");
    expect(textOf(await whoami(ben, { [HEADER]: "good-eve-secret-3" }))).toBe("eve x");
    // A new value counts from the next call on.
    await store("ann", "good-ann2-secret-4");
    expect(textOf(await whoami(ann))).toBe("ann2 x");
    // With the token, what was stored for it goes.
    await rack.api("DELETE", `/api/tokens/${ids.get("ann")}`);
    const { items } = await rack.api("GET", "/api/secrets");
    expect(items.map(({ name }: { name: string }) => name)).toEqual([`token.${ids.get("ben")}.API_TOKEN`]);
  });

  it("refuses a caller without them, and says what to set and where", async () => {
    await using rack = await open();
    const token = await rack.issue(limited);
    await rack.post("modern", list, { token, headers: { [HEADER]: "good-ann-secret-1" } });
    const [{ id = "" } = {}] = await rack.serving.store.tokens.list();
    const missing = textOf(await rack.call("modern", "mcp_personal_whoami", {}, { token }));
    expect(missing).toContain("this caller gave no API_TOKEN");
    expect(missing).toContain("X-Toolrack-Caller-Api-Token");
    expect(missing).toContain(`toolrack secrets set API_TOKEN --token ${id}`);
    const short = { token, headers: { [HEADER]: "short" } };
    expect(textOf(await rack.call("modern", "mcp_personal_whoami", {}, short))).toMatch(/shorter than 8/);
    const wrong = { token, headers: { [HEADER]: "stolen-credentials" } };
    const refused = textOf(await rack.call("modern", "mcp_personal_whoami", {}, wrong));
    expect(refused).toContain("It does not take what this caller gave as API_TOKEN");
    expect(refused).not.toContain("stolen-credentials");
    // The others go on.
    const right = { token, headers: { [HEADER]: "good-ann-secret-1" } };
    expect(textOf(await rack.call("modern", "mcp_personal_whoami", { plain: "x" }, right))).toBe("ann x");
  });

  it("shows the values to nobody: not in results, records, the log or the entry", async () => {
    await using rack = await open();
    const value = "good-ann-secret-of-hers";
    const options = { headers: { [HEADER]: value } };
    await rack.post("modern", list, options);
    expect(textOf(await rack.call("modern", "mcp_personal_whoami", {}, options))).toBe(
      "ann Bearer [redacted]",
    );
    await rack.call("modern", "mcp_personal_whoami", { plain: `it is ${value}` }, options);
    const shown = await Promise.all([
      rack.api("GET", "/api/calls"),
      rack.api("GET", "/api/mcp-servers/personal"),
      rack.api("GET", "/api/mcp-servers/personal/log"),
    ]);
    expect(JSON.stringify(shown)).not.toContain(value);
  });

  it("lists nothing to others that holds a value of the caller, and does not store it", async () => {
    await using rack = await open();
    const value = "good-telling-secret-1";
    const token = await rack.issue(limited);
    const first = await rack.post("modern", list, { token, headers: { [HEADER]: value } });
    expect(namesIn(first)).toEqual(["mcp_personal_whoami"]);
    const other = await rack.issue(limited);
    expect(JSON.stringify((await rack.post("modern", list, { token: other })).message)).not.toContain(value);
    const view = await rack.api("GET", "/api/mcp-servers/personal");
    expect(JSON.stringify(view)).toContain("credentials of the caller");
    await rack.serving.close();
    await using again = await ServedRack.over(rack.workspace);
    const discover = { jsonrpc: "2.0", id: 1, method: "server/discover", params: {} };
    const answers = [await again.post("modern", discover), await again.post("modern", list)];
    expect(JSON.stringify(answers.map(({ message }) => message))).not.toContain(value);
  });

  it("has its tools from the first caller that has any, whoever else asks, and keeps them over a restart", async () => {
    await using rack = await open();
    const view = await rack.api("GET", "/api/mcp-servers/personal");
    expect(view).toMatchObject({ state: "ready", resting: true, tools: 0 });
    expect(view.reason).toContain("with those of the first caller");
    const headers = { [HEADER]: "good-rich-secret-1" };
    // A token that may use nothing of the server does not make the rack reach it.
    const stranger = await rack.issue({ tools: ["mcp:another"] });
    expect(namesIn(await rack.post("modern", list, { token: stranger, headers }))).toEqual([]);
    expect((await rack.api("GET", "/api/mcp-servers/personal")).connections).toBe(0);
    const token = await rack.issue(limited);
    expect(namesIn(await rack.post("modern", list, { token }))).toEqual([]);
    const tools = ["mcp_personal_rich", "mcp_personal_whoami"];
    expect(namesIn(await rack.post("legacy", list, { token, headers }))).toEqual(tools);
    expect(namesIn(await rack.post("modern", list, { token }))).toEqual(tools);
    // A caller whom the server does not offer a tool is told so, and the list stays.
    const poor = { token, headers: { [HEADER]: "good-poor-secret-2" } };
    expect(textOf(await rack.call("modern", "mcp_personal_rich", {}, poor))).toContain("to this caller");
    expect(namesIn(await rack.post("modern", list, poor))).toEqual(tools);
    await rack.serving.close();
    await using again = await ServedRack.over(rack.workspace);
    expect(namesIn(await again.post("modern", list))).toEqual(expect.arrayContaining(tools));
  });

  it("puts a value into the environment of a process as it is", async () => {
    const entry = { command: process.execPath, args: [notes], env: { WHO: "{{caller:NAME}}" } };
    await using rack = await ServedRack.open({
      "mcp.json": JSON.stringify({ mcpServers: { notes: entry } }),
    });
    await rack.api("PUT", "/api/secrets/PRIVATE", { value: "private-of-the-rack" });
    const headers = { "x-toolrack-caller-name": `\${secret:PRIVATE} {{caller:NAME}}` };
    await rack.post("modern", list, { headers });
    expect(textOf(await rack.call("modern", "mcp_notes_who", {}, { headers }))).toBe(
      "[redacted] in no place",
    );
    const { message } = await rack.call("modern", "mcp_notes_remember", { text: "x" }, { headers });
    expect(JSON.stringify(message)).not.toContain("private-of-the-rack");
  });
});
