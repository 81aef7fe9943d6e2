import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import type { Scenario } from "../scenarios/scenario.ts";
import type { Contestant } from "./contestant.ts";
import { LoopbackTransport, readMcpAnswer, toMcpResult } from "./mcp-loopback.ts";

export const mcpSdk2Server: Contestant = {
  async setUpCall(scenario) {
    const transport = new LoopbackTransport();
    await makeServer(scenario).connect(transport);
    return {
      call: (input) => transport.request("tools/call", { name: scenario.name, arguments: input }),
      readAnswer: readMcpAnswer,
    };
  },
  setUpRack(scenario) {
    const server = makeServer(scenario);
    const transport = new LoopbackTransport();
    return {
      add: (name) => registerTool(server, scenario, name),
      async call(name, input) {
        if (!server.isConnected()) await server.connect(transport);
        return transport.request("tools/call", { name, arguments: input });
      },
      async list() {
        if (!server.isConnected()) await server.connect(transport);
        const { tools } = (await transport.request("tools/list", {})) as { tools: { name: string }[] };
        return tools.filter((tool) => tool.name !== scenario.name);
      },
    };
  },
};

export const mcpSdk2Client: Contestant = {
  async setUpCall(scenario) {
    const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
    const client = new Client({ name: "bench", version: "1.0.0" });
    await makeServer(scenario).connect(serverSide);
    await client.connect(clientSide);
    return {
      call: (input) => client.callTool({ name: scenario.name, arguments: input as Record<string, unknown> }),
      readAnswer: readMcpAnswer,
    };
  },
};

function makeServer(scenario: Scenario): McpServer {
  const server = new McpServer({ name: "bench", version: "1.0.0" });
  registerTool(server, scenario, scenario.name);
  return server;
}

function registerTool(server: McpServer, { description, zodSchema, run }: Scenario, name: string): void {
  server.registerTool(name, { description, inputSchema: zodSchema }, async (input) =>
    toMcpResult(run(input)),
  );
}
