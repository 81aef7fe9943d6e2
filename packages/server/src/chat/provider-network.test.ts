import { once } from "node:events";
import { createServer, type RequestListener, request } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { type AddressInfo, connect, type Server } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { afterEach, expect, it, vi } from "vitest";
import { ServedWorkspace } from "../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

vi.setConfig({ testTimeout: 60_000 });

// A key that is used nowhere else, and its certificate for 127.0.0.1, which ends in the year 2126.
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgA+vKbtUqn1EYjVbo
iWT+0gufuarzRl/5f0R1uWvFTJehRANCAARLW1dsEVpOAk0EE2VQ0ydbMwZyHIjR
9OOTyRlmaRCwT6juof23MILDznEWxT+aMQgvwf3bYQOSUHuhsubD84X3
-----END PRIVATE KEY-----`;
const cert = `-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUA3M8Y35zBejTVdCI9/7AZj4ZIQIwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExODE5MTE0MloYDzIxMjYxMDI1
MTkxMTQyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARLW1dsEVpOAk0EE2VQ0ydbMwZyHIjR9OOTyRlmaRCwT6juof23MILD
znEWxT+aMQgvwf3bYQOSUHuhsubD84X3o28wbTAdBgNVHQ4EFgQUZvyTV8TmdoD+
9g8gTvmbWivnO0EwHwYDVR0jBBgwFoAUZvyTV8TmdoD+9g8gTvmbWivnO0EwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDRwAwRAIgfxxuHYX/gWrsmJXaiVnDWLX0DGdlTU6UpXAPsAaiVb8CIGVj
EJSLDKA2oszNImEFmLYHqyTamlbDHjfaGoM7s/al
-----END CERTIFICATE-----`;

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function portOf(server: Server): Promise<number> {
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  // A server that listens on a port has such an address.
  return (server.address() as AddressInfo).port;
}

const model: RequestListener = (incoming, outgoing) => {
  incoming.resume();
  const message = { role: "assistant", content: "hello" };
  const answer = { choices: [{ index: 0, message, finish_reason: "stop" }] };
  outgoing.writeHead(200, { "content-type": "application/json", connection: "close" });
  outgoing.end(JSON.stringify(answer));
};

/** Asks the model through the real program, which is started with this environment. */
async function askThrough(baseURL: string, environmentOf: (directory: string) => Record<string, string>) {
  const providers = { test: { baseURL, apiKey: "key-of-the-provider", models: ["m"] } };
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": `export default ${JSON.stringify({ builtins: false, providers })};`,
    "authority.pem": cert,
  });
  await using served = await ServedWorkspace.start(workspace.directory, environmentOf(workspace.directory));
  const messages = [{ role: "user", content: "hi" }];
  return (await served.ask("POST", "/v1/chat/completions", { model: "m", messages })).body;
}

it("a provider with a certificate of one's own is asked when Node trusts who signed it", async () => {
  const port = await portOf(createSecureServer({ key, cert }, model));
  const answer = await askThrough(`https://127.0.0.1:${port}/v1`, (directory) => ({
    NODE_EXTRA_CA_CERTS: join(directory, "authority.pem"),
  }));
  expect(answer).toMatchObject({ choices: [{ message: { content: "hello" } }] });
});

it("a provider whose certificate nobody trusts is not asked", async () => {
  let requests = 0;
  const port = await portOf(createSecureServer({ key, cert }, () => requests++));
  const answer = await askThrough(`https://127.0.0.1:${port}/v1`, () => ({}));
  expect(answer.error.message).toContain("cannot be reached: DEPTH_ZERO_SELF_SIGNED_CERT");
  expect(requests).toBe(0);
});

it.each(["http", "https"])(
  "a provider at %s is asked through the proxy of the environment",
  async (scheme) => {
    const provider = scheme === "http" ? createServer(model) : createSecureServer({ key, cert }, model);
    const port = await portOf(provider);
    const passed: string[] = [];
    const proxy = createServer((incoming, outgoing) => {
      passed.push(new URL(incoming.url ?? "").host);
      const { method, headers } = incoming;
      const onward = request(incoming.url ?? "", { method: method ?? "GET", headers }, (response) => {
        outgoing.writeHead(response.statusCode ?? 0, response.headers);
        response.pipe(outgoing);
      });
      incoming.pipe(onward);
    });
    proxy.on("connect", ({ url }, socket) => {
      passed.push(String(url));
      const onward = connect(port, "127.0.0.1", () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
      onward.on("error", () => socket.destroy()).pipe(socket);
      socket.on("error", () => onward.destroy()).pipe(onward);
    });
    const address = `http://127.0.0.1:${await portOf(proxy)}`;
    const answer = await askThrough(`${scheme}://127.0.0.1:${port}/v1`, (directory) => ({
      NODE_EXTRA_CA_CERTS: join(directory, "authority.pem"),
      NODE_USE_ENV_PROXY: "1",
      HTTP_PROXY: address,
      HTTPS_PROXY: address,
    }));
    expect(answer).toMatchObject({ choices: [{ message: { content: "hello" } }] });
    expect(new Set(passed)).toEqual(new Set([`127.0.0.1:${port}`]));
  },
);

it.each<[string, (socket: Duplex) => unknown, RegExp]>([
  ["hangs up", (socket) => socket.destroy(), /cannot be reached: the proxy hung up/],
  [
    "refuses",
    (socket) => socket.end("HTTP/1.1 407 Sign in\r\n\r\n"),
    /cannot be reached: the proxy answered 407/,
  ],
])("a proxy that %s is told of, and not asked without end", async (_, refuse, told) => {
  let connections = 0;
  const proxy = createServer().on("connect", (_, socket) => refuse(socket));
  proxy.on("connection", () => connections++);
  const address = `http://127.0.0.1:${await portOf(proxy)}`;
  const answer = await askThrough("http://models.example/v1", () => ({
    NODE_USE_ENV_PROXY: "1",
    HTTP_PROXY: address,
  }));
  expect(answer.error?.message).toMatch(told);
  // As often as a provider that cannot be reached.
  expect(connections).toBe(5);
});

it("each provider of a list is told the limit of an answer by the name that it knows", async () => {
  const asked: Record<string, unknown> = {};
  const provider = createServer(async (incoming, outgoing) => {
    let text = "";
    for await (const piece of incoming) text += piece;
    const { host = "" } = incoming.headers;
    const { max_tokens, max_completion_tokens } = JSON.parse(text);
    asked[host] = { max_tokens, max_completion_tokens };
    if (host === "models.example") outgoing.writeHead(503).end("away");
    else model(incoming, outgoing);
  });
  const port = await portOf(provider);
  // Leads every name to the provider above.
  const proxy = createServer().on("connect", (_, socket) => {
    const onward = connect(port, "127.0.0.1", () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
    onward.on("error", () => socket.destroy()).pipe(socket);
    socket.on("error", () => onward.destroy()).pipe(onward);
  });
  const config = {
    builtins: false,
    providers: {
      own: { baseURL: "http://models.example/v1", models: ["m"] },
      openai: { baseURL: "http://api.openai.com/v1", models: ["gpt"] },
    },
    chat: { model: "best", models: { best: ["own/m", "openai/gpt"] } },
  };
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": `export default ${JSON.stringify(config)};`,
  });
  await using served = await ServedWorkspace.start(workspace.directory, {
    NODE_USE_ENV_PROXY: "1",
    HTTP_PROXY: `http://127.0.0.1:${await portOf(proxy)}`,
  });
  for (const store of [true, false]) {
    const body = { input: "hi", max_output_tokens: 77, store };
    expect((await served.ask("POST", "/v1/responses", body)).body).toMatchObject({ status: "completed" });
    expect(asked["api.openai.com"]).toEqual({ max_completion_tokens: 77 });
  }
  expect(asked["models.example"]).toEqual({ max_tokens: 77 });
});
