import { expect, it } from "vitest";
import { type RpcAnswer, ServedRack } from "../../serve/testing/served-rack.ts";
import { AuthorizationServer } from "../testing/authorization-server.fixture.ts";
import { ModernHttpServer } from "../testing/modern-http-server.fixture.ts";

const limited = { tools: ["mcp:guarded"] };
const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
const textOf = ({ message }: RpcAnswer): string => message.result.content[0].text;

async function open(oauth: object) {
  const stack = new AsyncDisposableStack();
  const behind = stack.use(await ModernHttpServer.start()).url;
  const authority = stack.use(await AuthorizationServer.start({ behind }));
  const guarded = { url: authority.url, toolrack: { oauth } };
  const rack = await ServedRack.open({ "mcp.json": JSON.stringify({ mcpServers: { guarded } }) });
  stack.use(rack);
  return { rack, authority, stack };
}

it("each token signs in for itself, acts with that sign-in, and ends it", async () => {
  const { rack, authority, stack } = await open({ signIn: "token" });
  await using _ = stack;
  const [ann, ben] = [await rack.issue(limited, "ann"), await rack.issue(limited, "ben")];
  const ids = new Map((await rack.serving.store.tokens.list()).map(({ name, id }) => [name, id]));
  const login = async (token: string) => {
    const { url } = await rack.api("POST", "/api/mcp-servers/guarded/login", {}, { token });
    expect((await authority.agree(url)).status).toBe(200);
  };
  const echo = (token: string) => rack.call("legacy", "mcp_guarded_echo", { text: "in" }, { token });
  await login(ann);
  const { message } = await rack.post("modern", list, { token: ann });
  expect(message.result.tools.length).toBeGreaterThan(0);
  expect(textOf(await echo(ann))).toBe("in");
  const refused = textOf(await echo(ben));
  expect(refused).toContain("nobody has signed in there with this token");
  expect(refused).toContain("POST /api/mcp-servers/guarded/login");
  await login(ben);
  // Each calls with its own access token, however the calls are mixed.
  const [ofAnn = "", , ofBen = ""] = authority.given;
  for (const [token, own] of [
    [ann, ofAnn],
    [ben, ofBen],
    [ann, ofAnn],
    [ben, ofBen],
  ] as const) {
    expect(textOf(await echo(token))).toBe("in");
    expect(authority.used.at(-1)).toBe(own);
  }
  expect(ofAnn).not.toBe(ofBen);
  // The operator has not signed in, and is nobody's deputy.
  expect(textOf(await echo(rack.token))).toContain("nobody has signed in there with this token");
  expect((await rack.api("GET", "/api/mcp-servers/guarded")).signIn).toMatchObject({ signedIn: false });
  const ended = await rack.api("POST", "/api/mcp-servers/guarded/logout", {}, { token: ann });
  expect(ended).toEqual({ status: 200, revoked: true });
  expect(textOf(await echo(ann))).toContain("nobody has signed in");
  expect(textOf(await echo(ben))).toBe("in");
  const { items } = await rack.api("GET", "/api/secrets");
  expect(items.map(({ name }: { name: string }) => name)).toEqual([
    `token.${ids.get("ben")}.mcp-oauth.guarded`,
  ]);
  // A token that may use nothing of the server cannot sign in there.
  const stranger = await rack.issue({ tools: ["mcp:another"] });
  expect((await rack.api("POST", "/api/mcp-servers/guarded/login", {}, { token: stranger })).status).toBe(
    403,
  );
}, 60_000);

it("where all callers share one sign-in, only an admin makes and ends it", async () => {
  const { rack, stack } = await open({});
  await using _ = stack;
  const token = await rack.issue(limited);
  for (const action of ["login", "logout"]) {
    const { status } = await rack.api("POST", `/api/mcp-servers/guarded/${action}`, {}, { token });
    expect(status).toBe(403);
  }
  expect((await rack.api("POST", "/api/mcp-servers/guarded/login")).status).toBe(200);
}, 60_000);
