import type { McpServers } from "../mcp/connect/index.ts";
import { McpServerError } from "../store/index.ts";
import type { HttpParts } from "./app.ts";
import { defineRoute, type Mount, type Route, sendText } from "./wire/index.ts";

/** Lets a program that has the workspace's token make sure that it talks to its server, before it sends the token. */
export function identityRoutes({ prove }: Pick<HttpParts, "prove">): Route[] {
  return [
    defineRoute<{ nonce: string }>({
      method: "GET",
      path: "/identity/{nonce}",
      id: "identify",
      tag: "server",
      summary: "Proves that this is the workspace's server",
      description:
        "Answers with the HMAC-SHA256 of `toolrack server`, the server's port and the nonce, each on a line, under " +
        "the workspace's own token, in base64url.",
      access: "open",
      params: {
        nonce: {
          type: "string",
          minLength: 16,
          maxLength: 128,
          description: "Random, and never used before.",
        },
      },
      responses: {
        200: {
          description: "The proof.",
          schema: { type: "object", properties: { proof: { type: "string" } }, required: ["proof"] },
        },
      },
      handle: ({ params, incoming }) => ({
        body: { proof: prove(incoming.socket.localPort ?? 0, params.nonce) },
      }),
    }),
  ];
}

/** Where authorization servers send people back to, with the key of the MCP server behind it. */
export const CALLBACK_PATH = "/oauth/callback";

/**
 * The page that a person sees after signing in at an upstream MCP server. It is open, since a browser that comes from
 * elsewhere bears no token: what it brings is worth something only with the state of a sign-in that was begun here.
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
