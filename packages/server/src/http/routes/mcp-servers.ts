import type { Grant } from "../../access/index.ts";
import type { McpServers } from "../../mcp/connect/index.ts";
import { McpServerError } from "../../store/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Mount, originOf, type Route, routesFor, s, sendText } from "../wire/index.ts";

const key = s.text({ minLength: 1, maxLength: 100 });
const hash = s.text("Of the definition that was looked at, as the list of the tools has it.", {
  minLength: 1,
  maxLength: 64,
});
const entry = s.anyObject(
  "As it would stand in `mcpServers`: `command`, `args`, `env`, or `url`, `headers`, and so on; or, with a `spec`, in `apis` of `apis.json`.",
);
const override = s.nullable(
  s.closed({
    "rename?": s.text("Another last part of its name.", { minLength: 1, maxLength: 100 }),
    "describe?": s.text("Another description."),
  }),
);

/** The upstream MCP servers: those of `mcp.json`, which can be changed only in that file, and those added here. */
export function mcpServerRoutes({ mcpServers }: HttpServices): Route[] {
  const route = routesFor("mcp-servers", "admin");
  const openRoute = routesFor("mcp-servers", "token");
  const params = { key };
  const servers = () => {
    if (mcpServers !== undefined) return mcpServers;
    throw new HttpError("mcp_server_not_found", "No MCP servers are kept here.");
  };
  /** Lets others than admins sign in only for themselves, and only at servers that they may use. */
  const requireOwnSignIn = (key: string, grant: Grant) => {
    const isOwn = servers().isSignedInByToken(key) && servers().mayReach(key, (item) => grant.mayUse(item));
    if (grant.admin || isOwn) return;
    throw new HttpError("forbidden", "Only an admin's token may do this.");
  };
  // The answer of most routes: the server as it is now. Later changes come through the event stream.
  const server = ["The server.", s.ref("McpServer")] as const;
  return [
    route("GET /api/mcp-servers", "listMcpServers", "The MCP servers whose tools are on the rack", {
      answer: [
        "The servers, by key.",
        s.object({
          items: s.list(s.ref("McpServer")),
          "fileProblem?": s.text("Why the file cannot be read; its last good state goes on."),
          problems: s.map(s.text(), "Entries of the file that cannot be used: the reason by key."),
        }),
      ],
      handle: ({ grant }) => ({
        items: mcpServers?.list(grant.id) ?? [],
        fileProblem: mcpServers?.fileProblem,
        problems: Object.fromEntries(mcpServers?.problems ?? []),
      }),
    }),
    route("POST /api/mcp-servers", "addMcpServer", "Adds an MCP server and starts it", {
      body: s.closed({ key, entry }),
      answer: server,
      errors: ["mcp_server_invalid", "mcp_server_exists"],
      handle: ({ body }) => servers().add(body.key, body.entry),
    }),
    route("GET /api/mcp-servers/{key}", "getMcpServer", "One MCP server", {
      params,
      answer: server,
      errors: ["mcp_server_not_found"],
      handle: ({ params, grant }) => servers().get(params.key, grant.id),
    }),
    route(
      "PATCH /api/mcp-servers/{key}",
      "updateMcpServer",
      "Switches a server on or off, changes its entry, or says something about its tools",
      {
        description:
          "A server of the workspace's file can be switched, and its tools renamed and described; its entry is changed in the file.",
        params,
        body: s.closed({
          "enabled?": s.boolean(),
          "entry?": entry,
          "tools?": s.map(
            override,
            "By the names that the server gives them; null takes back what was said.",
          ),
        }),
        answer: server,
        errors: ["mcp_server_not_found", "mcp_server_read_only", "mcp_server_invalid", "mcp_tool_not_found"],
        handle: ({ params, body }) => servers().update(params.key, body),
      },
    ),
    route("DELETE /api/mcp-servers/{key}", "removeMcpServer", "Ends a server and forgets it", {
      params,
      answer: ["It is gone.", s.object({ key })],
      errors: ["mcp_server_not_found", "mcp_server_read_only"],
      handle: ({ params }) =>
        servers()
          .remove(params.key)
          .then(() => params),
    }),
    route("POST /api/mcp-servers/{key}/restart", "restartMcpServer", "Ends a server and starts it anew", {
      description:
        "Answers when it is ready or has failed; `state` says which. The connections of single callers are ended. The tools of a server that acts with the credentials of callers are read with those of this request.",
      params,
      answer: server,
      errors: ["mcp_server_not_found"],
      handle: ({ params, grant: { id: owner, caller, admin: isAdmin }, incoming: { headers } }) =>
        servers().restart(params.key, {
          ...{ owner, caller, isAdmin, headers },
          ...{ sessionID: "", connection: undefined },
        }),
    }),
    openRoute(
      "POST /api/mcp-servers/{key}/login",
      "loginMcpServer",
      "Begins to sign in at a server that asks for it",
      {
        description:
          "A person opens `url` and signs in there. The page sends them back to `/oauth/callback/{key}` of this server, under the address that this request was sent to; then the server is started anew. Where `signIn` of the entry's `toolrack.oauth`, or of the client in the `auth` of an API, is `token`, any token that may use a tool of the server signs in for itself; otherwise it takes an admin's.",
        params,
        answer: ["Where to sign in.", s.object({ url: s.text(), expiresAt: s.moment() })],
        errors: ["mcp_server_not_found", "mcp_server_invalid", "mcp_sign_in_failed"],
        handle({ params, grant, incoming }) {
          requireOwnSignIn(params.key, grant);
          return servers().login(params.key, `${originOf(incoming)}${CALLBACK_PATH}`, grant.id);
        },
      },
    ),
    openRoute(
      "POST /api/mcp-servers/{key}/logout",
      "logoutMcpServer",
      "Forgets the sign-in at a server, and has its tokens taken back where that can be done",
      {
        params,
        answer: [
          "The server, without its sign-in.",
          s.object({
            revoked: s.boolean("Whether the authorization server took the tokens back."),
            "server?": s.ref("McpServer"),
          }),
        ],
        errors: ["mcp_server_not_found", "mcp_server_invalid"],
        async handle({ params, grant }) {
          requireOwnSignIn(params.key, grant);
          const { revoked, server } = await servers().logout(params.key, grant.id);
          return { revoked, ...(grant.admin ? { server } : {}) };
        },
      },
    ),
    route(
      "GET /api/mcp-servers/{key}/log",
      "getMcpServerLog",
      "What a server wrote to its standard error and logged, and what was done with it",
      {
        params,
        answer: [
          "The last lines, oldest first. Secrets are masked.",
          s.items(s.object({ at: s.moment(), from: s.choice(["stderr", "log", "rack"]), text: s.text() })),
        ],
        errors: ["mcp_server_not_found"],
        handle: ({ params }) => ({ items: servers().log(params.key) }),
      },
    ),
    route(
      "GET /api/mcp-servers/{key}/tools",
      "listMcpServerTools",
      "The tools of a server, and whether they are what was approved",
      {
        params,
        answer: ["The tools, in the order of the server.", s.items(s.ref("McpServerTool"))],
        errors: ["mcp_server_not_found"],
        handle: ({ params }) => ({ items: servers().tools(params.key) }),
      },
    ),
    route(
      "POST /api/mcp-servers/{key}/approve",
      "approveMcpServer",
      "Approves all tools of a server as they are now",
      {
        description:
          "An entry of the workspace's file that a tool call wrote is approved with it, and the server is started. With `hashes`: only those that are named, and none of them when one has changed since it was looked at.",
        params,
        optionalBody: s.closed({
          "hashes?": s.map(
            hash,
            "The `hash` of each tool that is approved, by the name that the server gives it; that of its instructions by an empty one.",
          ),
        }),
        answer: ["The tools.", s.items(s.ref("McpServerTool"))],
        errors: ["mcp_server_not_found", "mcp_tool_not_found", "mcp_tool_changed"],
        handle: async ({ params, body, grant }) => ({
          items: await servers().approve(params.key, body.hashes, grant.caller),
        }),
      },
    ),
    route(
      "POST /api/mcp-servers/{key}/tools/{name}/approve",
      "approveMcpServerTool",
      "Approves a tool as it is now",
      {
        description:
          "A tool whose description or schema changed since it was approved is switched off until then. With the `hash` that came with the difference, it is only approved while it is what was looked at.",
        params: { key, name: s.text("As the server names it.", { minLength: 1 }) },
        optionalBody: s.closed({ "hash?": hash }),
        answer: ["The tool.", s.ref("McpServerTool")],
        errors: ["mcp_server_not_found", "mcp_tool_not_found", "mcp_tool_changed"],
        async handle({ params, body, grant }) {
          const [tool] = await servers().approve(params.key, { [params.name]: body.hash }, grant.caller);
          return tool;
        },
      },
    ),
  ];
}

/** The path to which authorization servers redirect; the key of the MCP server follows. */
const CALLBACK_PATH = "/oauth/callback";

/**
 * The page after signing in at an upstream MCP server. It needs no token, because a browser that comes from elsewhere
 * has none: the request is valid only with the state of a sign-in that was begun here.
 */
export function oauthCallbackMount(servers: Pick<McpServers, "finishLogin">): Mount {
  return {
    access: "open",
    owns: (path, method) => method === "GET" && path.startsWith(`${CALLBACK_PATH}/`),
    async handle({ url = "", headers }, outgoing) {
      const { pathname, searchParams } = new URL(url, "http://localhost");
      const words = /^zh\b/i.test(headers["accept-language"] ?? "") ? chinese : english;
      const send = (status: number, title: string, text: string) =>
        sendText(outgoing, status, page(words.language, title, text), {
          "Content-Type": "text/html; charset=utf-8",
        });
      const key = keyIn(pathname);
      try {
        await servers.finishLogin(key, searchParams);
        send(200, words.done, words.doneAbout(key));
      } catch (thrown) {
        if (!(thrown instanceof McpServerError)) throw thrown;
        send(400, words.failed, thrown.message);
      }
    },
  };
}

const english = {
  language: "en",
  done: "Signed in",
  doneAbout: (key: string) => `The rack is signed in at ${key} and starts it now. You can close this page.`,
  failed: "Not signed in",
};
const chinese: typeof english = {
  language: "zh-CN",
  done: "已登录",
  doneAbout: (key) => `已登录 ${key}，正在启动它。你可以关闭此页面。`,
  failed: "未能登录",
};

function keyIn(pathname: string): string {
  try {
    return decodeURIComponent(pathname.slice(CALLBACK_PATH.length + 1));
  } catch {
    return "";
  }
}

function page(language: string, title: string, text: string): string {
  return `<!doctype html><html lang="${language}"><meta charset="utf-8"><title>${title} · Toolrack</title><h1>${title}</h1><p>${escaped(text)}</p></html>`;
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
