import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { readJson } from "./api-error.ts";

let server: Server | undefined;
afterEach(() => {
  server?.close();
});

async function ask(answer: RequestListener): Promise<unknown> {
  server = createServer(answer);
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // A server that listens on a port has such an address.
  return readJson(await fetch(`http://127.0.0.1:${port}`));
}

it("says that the server is away when the connection breaks before the end of an answer", async () => {
  const answer: RequestListener = (_request, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write('{ "items": [');
    setTimeout(() => response.destroy(), 50);
  };
  await expect(ask(answer)).rejects.toMatchObject({ code: "unreachable", isAway: true });
});

it("tells an answer that is no JSON from one that did not come", async () => {
  const answer: RequestListener = (_request, response) => void response.end("<html>");
  await expect(ask(answer)).rejects.toMatchObject({ code: "unreadable", status: 200, isAway: false });
});
