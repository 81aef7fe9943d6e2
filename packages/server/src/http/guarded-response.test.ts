import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { GuardedResponse, securityHeaders } from "./request-guard.ts";

let server: Server | undefined;
afterEach(() => server?.close());

async function ask(answer: (outgoing: ServerResponse) => void): Promise<IncomingMessage> {
  server = createServer({ ServerResponse: GuardedResponse }, (_, outgoing) => answer(outgoing));
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return new Promise((resolve, reject) => {
    get({ port, host: "127.0.0.1", agent: false }, (incoming) => resolve(incoming.resume())).on(
      "error",
      reject,
    );
  });
}

function valuesOf({ rawHeaders }: IncomingMessage, name: string): string[] {
  return rawHeaders.filter(
    (_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name.toLowerCase(),
  );
}

it.each<[string, (outgoing: ServerResponse) => void]>([
  ["without a head of its own", (outgoing) => outgoing.end("x")],
  ["with headers as an object", (outgoing) => outgoing.writeHead(200, { "X-Own": "1" }).end("x")],
  ["with headers as a list", (outgoing) => outgoing.writeHead(200, ["X-Own", "1"]).end("x")],
  ["with a reason and headers", (outgoing) => outgoing.writeHead(404, "Gone", { "X-Own": "1" }).end("x")],
  [
    "with a list after a single header",
    (outgoing) => {
      outgoing.setHeader("X-First", "1");
      outgoing.writeHead(200, ["X-Own", "1"]).end("x");
    },
  ],
])("has every security header once in an answer %s", async (_, answer) => {
  const incoming = await ask(answer);
  for (const [name, value] of Object.entries(securityHeaders))
    expect(valuesOf(incoming, name)).toEqual([value]);
});

it.each<[string, (outgoing: ServerResponse) => void]>([
  ["set before", (outgoing) => outgoing.setHeader("cache-control", "no-cache").end("x")],
  ["given as an object", (outgoing) => outgoing.writeHead(200, { "Cache-Control": "no-cache" }).end("x")],
  ["given as a list", (outgoing) => outgoing.writeHead(200, ["cache-control", "no-cache"]).end("x")],
])("leaves a header as the answer has it, when it is %s", async (_, answer) => {
  const incoming = await ask(answer);
  expect(valuesOf(incoming, "Cache-Control")).toEqual(["no-cache"]);
  expect(valuesOf(incoming, "X-Frame-Options")).toEqual(["DENY"]);
});
