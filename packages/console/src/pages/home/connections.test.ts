import { expect, it } from "vitest";
import { clients, connectWith, needsToken, TOKEN, unusedName } from "./connections.ts";

const server = {
  url: "http://127.0.0.1:7300",
  workspace: "/my tools",
  program: ["/opt/node", "--conditions=x", "/opt/main.ts"],
};
const textOf = (client: (typeof clients)[number], token?: string) =>
  connectWith(client, server, token).steps[0]!.text;

it("gives Claude Desktop the very program to start, since it takes no address and has no PATH", () => {
  expect(JSON.parse(textOf("claude-desktop")).mcpServers.toolrack).toEqual({
    command: "/opt/node",
    args: ["--conditions=x", "/opt/main.ts", "mcp", "--dir", "/my tools"],
  });
});

it("gives the others the address in the words of each, with a token of their own", () => {
  const headers = { Authorization: "Bearer trk_1" };
  expect(JSON.parse(textOf("cursor", "trk_1")).mcpServers.toolrack).toEqual({
    url: "http://127.0.0.1:7300/mcp",
    headers,
  });
  const code = JSON.parse(textOf("vscode", "trk_1"));
  expect(code.servers.toolrack).toMatchObject({ type: "http", url: "http://127.0.0.1:7300/mcp" });
  expect(code.inputs[0]).toMatchObject({ id: "toolrack-token", password: true });
  expect(textOf("codex", "trk_1")).toBe(
    '[mcp_servers.toolrack]\nurl = "http://127.0.0.1:7300/mcp"\nhttp_headers = { Authorization = "Bearer trk_1" }',
  );
  expect(textOf("claude-code", "trk_1")).toBe(
    "claude mcp add --transport http toolrack http://127.0.0.1:7300/mcp --header 'Authorization: Bearer trk_1'",
  );
});

it("never names the operator's own token, and shows where another belongs", () => {
  for (const client of clients) {
    const text = connectWith(client, server)
      .steps.map((step) => step.text)
      .join("\n");
    expect(text).not.toContain(".toolrack/token");
    expect(text).not.toContain("npx");
    if (needsToken(client) && client !== "vscode") expect(text).toContain(TOKEN);
  }
});

it("links to the clients that can be asked to take it, once there is a token", () => {
  expect(connectWith("cursor", server).link).toBeUndefined();
  const cursor = new URL(connectWith("cursor", server, "trk_1").link!);
  expect(JSON.parse(atob(cursor.searchParams.get("config")!))).toEqual({
    url: "http://127.0.0.1:7300/mcp",
    headers: { Authorization: "Bearer trk_1" },
  });
  const code = connectWith("vscode", server, "trk_1").link!;
  expect(JSON.parse(decodeURIComponent(code.slice(code.indexOf("?") + 1)))).toMatchObject({
    name: "toolrack",
    type: "http",
    headers: { Authorization: "Bearer trk_1" },
  });
});

it("gives a name of its own to each", () => {
  expect(unusedName("Cursor", [])).toBe("Cursor");
  expect(unusedName("Cursor", ["Codex", "Cursor"])).toBe("Cursor 2");
  expect(unusedName("Cursor", ["Cursor", "Cursor 3", "Cursor 2"])).toBe("Cursor 4");
});
