import { expect, it } from "vitest";
import { clients, connectWith } from "./connect-with.ts";

const server = { url: "http://127.0.0.1:7300", workspace: "/srv/tools" };

it("gives Claude Desktop a program to start, since it takes no address", () => {
  const { mcpServers } = JSON.parse(connectWith("claude-desktop", server));
  expect(mcpServers.toolrack).toEqual({ command: "npx", args: ["toolrack", "mcp", "--dir", "/srv/tools"] });
});

it("gives the others the address in the words of each", () => {
  expect(JSON.parse(connectWith("cursor", server)).mcpServers.toolrack).toMatchObject({
    url: "http://127.0.0.1:7300/mcp",
  });
  const code = JSON.parse(connectWith("vscode", server));
  expect(code.servers.toolrack).toMatchObject({ type: "http", url: "http://127.0.0.1:7300/mcp" });
  expect(code.inputs[0]).toMatchObject({ id: "toolrack-token", password: true });
  expect(connectWith("codex", server)).toContain("[mcp_servers.toolrack]");
  for (const client of clients) expect(connectWith(client, server)).not.toBe("");
});
