import type { JsonSchemaObject } from "@toolrack/core";
import type { McpServers, McpServerUpdate } from "../../mcp/connect/index.ts";
import { McpServerError } from "../../store/index.ts";
import type { HttpParts } from "../app.ts";
import { CALLBACK_PATH } from "../identity.ts";
import { ref } from "../schemas/common.ts";
import { defineRoute, HttpError, originOf, type Reply, type Route } from "../wire/index.ts";

const key: JsonSchemaObject = { type: "string", minLength: 1, maxLength: 100 };
const hash: JsonSchemaObject = {
  type: "string",
  minLength: 1,
  maxLength: 64,
  description: "Of the definition that was looked at, as the list of the tools has it.",
};
const entry: JsonSchemaObject = {
  type: "object",
  description: "As it would stand in `mcpServers`: `command`, `args`, `env`, or `url`, `headers`, and so on.",
};
const override: JsonSchemaObject = {
  type: ["object", "null"],
  properties: {
    rename: { type: "string", minLength: 1, maxLength: 100, description: "Another last part of its name." },
    describe: { type: "string", description: "Another description." },
  },
  additionalProperties: false,
};

interface KeyParams {
  readonly key: string;
}

/** The upstream MCP servers: those of `mcp.json`, which only that file can change, and those that were added here. */
export function mcpServerRoutes({ mcpServers }: HttpParts): Route[] {
  // Whoever reads the events sees what becomes of the servers without asking for them again and again.
  const server = { description: "The server.", schema: ref("McpServer") };
  const base = { tag: "mcp-servers", access: "admin" } as const;
  return [
    defineRoute({
      ...base,
      method: "GET",
      path: "/api/mcp-servers",
      id: "listMcpServers",
      summary: "The MCP servers whose tools are on the rack",
      responses: {
        200: {
          description: "The servers, by key.",
          schema: {
            type: "object",
            properties: {
              items: { type: "array", items: ref("McpServer") },
              fileProblem: {
                type: "string",
                description: "Why the file cannot be read; its last good state goes on.",
              },
              problems: {
                type: "object",
                description: "Entries of the file that cannot be used: the reason by key.",
                additionalProperties: { type: "string" },
              },
            },
            required: ["items", "problems"],
          },
        },
      },
      handle: () => {
        const { fileProblem } = mcpServers ?? {};
        return {
          body: {
            items: mcpServers?.list() ?? [],
            ...(fileProblem === undefined ? {} : { fileProblem }),
            problems: Object.fromEntries(mcpServers?.problems ?? []),
          },
        };
      },
    }),
    defineRoute<object, object, { key: string; entry: object }>({
      ...base,
      method: "POST",
      path: "/api/mcp-servers",
      id: "addMcpServer",
      summary: "Adds an MCP server and starts it",
      body: {
        required: true,
        schema: {
          type: "object",
          properties: { key, entry },
          required: ["key", "entry"],
          additionalProperties: false,
        },
      },
      responses: { 200: server },
      errors: ["mcp_server_invalid", "mcp_server_exists"],
      handle: ({ body }) => answer(mcpServers, (servers) => servers.add(body.key, body.entry)),
    }),
    defineRoute<KeyParams>({
      ...base,
      method: "GET",
      path: "/api/mcp-servers/{key}",
      id: "getMcpServer",
      summary: "One MCP server",
      params: { key },
      responses: { 200: server },
      errors: ["mcp_server_not_found"],
      handle: ({ params }) => answer(mcpServers, async (servers) => servers.get(params.key)),
    }),
    defineRoute<KeyParams, object, McpServerUpdate>({
      ...base,
      method: "PATCH",
      path: "/api/mcp-servers/{key}",
      id: "updateMcpServer",
      summary: "Switches a server on or off, changes its entry, or says something about its tools",
      description:
        "A server of the workspace's file can be switched, and its tools renamed and described; its entry is changed in the file.",
      params: { key },
      body: {
        required: true,
        schema: {
          type: "object",
          properties: {
            enabled: { type: "boolean" },
            entry,
            tools: {
              type: "object",
              description: "By the names that the server gives them; null takes back what was said.",
              additionalProperties: override,
            },
          },
          additionalProperties: false,
        },
      },
      responses: { 200: server },
      errors: ["mcp_server_not_found", "mcp_server_read_only", "mcp_server_invalid", "mcp_tool_not_found"],
      handle: ({ params, body }) => answer(mcpServers, (servers) => servers.update(params.key, body)),
    }),
    defineRoute<KeyParams>({
      ...base,
      method: "DELETE",
      path: "/api/mcp-servers/{key}",
      id: "removeMcpServer",
      summary: "Ends a server and forgets it",
      params: { key },
      responses: {
        200: {
          description: "It is gone.",
          schema: { type: "object", properties: { key }, required: ["key"] },
        },
      },
      errors: ["mcp_server_not_found", "mcp_server_read_only"],
      handle: ({ params }) =>
        answer(mcpServers, async (servers) => {
          await servers.remove(params.key);
          return { key: params.key };
        }),
    }),
    defineRoute<KeyParams>({
      ...base,
      method: "POST",
      path: "/api/mcp-servers/{key}/restart",
      id: "restartMcpServer",
      summary: "Ends a server and starts it anew",
      description: "Answers when it is ready or has failed; `state` says which.",
      params: { key },
      responses: { 200: server },
      errors: ["mcp_server_not_found"],
      handle: ({ params }) => answer(mcpServers, (servers) => servers.restart(params.key)),
    }),
    defineRoute<KeyParams>({
      ...base,
      method: "POST",
      path: "/api/mcp-servers/{key}/login",
      id: "loginMcpServer",
      summary: "Begins to sign in at a server that asks for it",
      description:
        "A person opens `url` and signs in there. The page sends them back to `/oauth/callback/{key}` of this server, under the address that this request was sent to; then the server is started anew.",
      params: { key },
      responses: {
        200: {
          description: "Where to sign in.",
          schema: {
            type: "object",
            properties: {
              url: { type: "string" },
              expiresAt: { type: "number", description: "Milliseconds since the epoch." },
            },
            required: ["url", "expiresAt"],
          },
        },
      },
      errors: ["mcp_server_not_found", "mcp_server_invalid", "mcp_sign_in_failed"],
      handle: ({ params, incoming }) =>
        answer(mcpServers, (servers) => servers.login(params.key, `${originOf(incoming)}${CALLBACK_PATH}`)),
    }),
    defineRoute<KeyParams>({
      ...base,
      method: "POST",
      path: "/api/mcp-servers/{key}/logout",
      id: "logoutMcpServer",
      summary: "Forgets the sign-in at a server, and has its tokens taken back where that can be done",
      params: { key },
      responses: {
        200: {
          description: "The server, without its sign-in.",
          schema: {
            type: "object",
            properties: {
              revoked: {
                type: "boolean",
                description: "Whether the authorization server took the tokens back.",
              },
              server: ref("McpServer"),
            },
            required: ["revoked", "server"],
          },
        },
      },
      errors: ["mcp_server_not_found", "mcp_server_invalid"],
      handle: ({ params }) => answer(mcpServers, (servers) => servers.logout(params.key)),
    }),
    defineRoute<KeyParams>({
      ...base,
      method: "GET",
      path: "/api/mcp-servers/{key}/log",
      id: "getMcpServerLog",
      summary: "What a server wrote to its standard error and logged, and what was done with it",
      params: { key },
      responses: {
        200: {
          description: "The last lines, oldest first. Secrets are masked.",
          schema: {
            type: "object",
            properties: {
              items: {
                type: "array",
                items: {
                  type: "object",
                  properties: {
                    at: { type: "number", description: "Milliseconds since the epoch." },
                    from: { enum: ["stderr", "log", "rack"] },
                    text: { type: "string" },
                  },
                  required: ["at", "from", "text"],
                },
              },
            },
            required: ["items"],
          },
        },
      },
      errors: ["mcp_server_not_found"],
      handle: ({ params }) => answer(mcpServers, async (servers) => ({ items: servers.log(params.key) })),
    }),
    defineRoute<KeyParams>({
      ...base,
      method: "GET",
      path: "/api/mcp-servers/{key}/tools",
      id: "listMcpServerTools",
      summary: "The tools of a server, and whether they are what was approved",
      params: { key },
      responses: { 200: toolList("The tools, in the order of the server.") },
      errors: ["mcp_server_not_found"],
      handle: ({ params }) => answer(mcpServers, async (servers) => ({ items: servers.tools(params.key) })),
    }),
    defineRoute<KeyParams, object, { readonly hashes?: Readonly<Record<string, string>> }>({
      ...base,
      method: "POST",
      path: "/api/mcp-servers/{key}/approve",
      id: "approveMcpServer",
      summary: "Approves all tools of a server as they are now",
      description:
        "An entry of the workspace's file that a tool call wrote is approved with it, and the server is started. With `hashes`: only those that are named, and none of them when one has changed since it was looked at.",
      params: { key },
      body: {
        schema: {
          type: "object",
          properties: {
            hashes: {
              type: "object",
              description: "The `hash` of each tool that is approved, by the name that the server gives it.",
              additionalProperties: hash,
            },
          },
          additionalProperties: false,
        },
      },
      responses: { 200: toolList("The tools.") },
      errors: ["mcp_server_not_found", "mcp_tool_not_found", "mcp_tool_changed"],
      handle: ({ params, body, grant }) =>
        answer(mcpServers, async (servers) => ({
          items: await servers.approve(params.key, body.hashes, grant.caller),
        })),
    }),
    defineRoute<KeyParams & { readonly name: string }, object, { readonly hash?: string }>({
      ...base,
      method: "POST",
      path: "/api/mcp-servers/{key}/tools/{name}/approve",
      id: "approveMcpServerTool",
      summary: "Approves a tool as it is now",
      description:
        "A tool whose description or schema changed since it was approved is switched off until then. With the `hash` that came with the difference, it is only approved while it is what was looked at.",
      params: { key, name: { type: "string", minLength: 1, description: "As the server names it." } },
      body: { schema: { type: "object", properties: { hash }, additionalProperties: false } },
      responses: { 200: { description: "The tool.", schema: ref("McpServerTool") } },
      errors: ["mcp_server_not_found", "mcp_tool_not_found", "mcp_tool_changed"],
      handle: ({ params, body, grant }) =>
        answer(mcpServers, async (servers) => {
          const [tool] = await servers.approve(params.key, { [params.name]: body.hash }, grant.caller);
          return tool;
        }),
    }),
  ];
}

function toolList(description: string) {
  return {
    description,
    schema: {
      type: "object",
      properties: { items: { type: "array", items: ref("McpServerTool") } },
      required: ["items"],
    },
  };
}

async function answer(
  mcpServers: McpServers | undefined,
  work: (servers: McpServers) => Promise<unknown>,
): Promise<Reply> {
  if (mcpServers === undefined) throw new HttpError("mcp_server_not_found", "No MCP servers are kept here.");
  try {
    return { body: await work(mcpServers) };
  } catch (thrown) {
    if (thrown instanceof McpServerError) {
      throw new HttpError(thrown.code, thrown.message, { details: thrown.details });
    }
    throw thrown;
  }
}
