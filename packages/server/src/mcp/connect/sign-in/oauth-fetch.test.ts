import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { oauthFetchFor } from "./oauth-flow.ts";

let requests = 0;
const inner = createServer((_, outgoing) => {
  requests++;
  outgoing.end("{}");
});
let address = "";
beforeAll(async () => {
  await new Promise<void>((resolve) => inner.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(inner.address() as AddressInfo).port}`;
});
afterAll(() => inner.close());

it("a server on the Internet cannot have the rack ask something in a private network", async () => {
  const fetch = oauthFetchFor(new URL("https://8.8.8.8/mcp"), undefined);
  await expect(fetch(`${address}/register`, { method: "POST" })).rejects.toThrow(
    /8\.8\.8\.8 names .* private/,
  );
  await expect(fetch("http://169.254.169.254/latest")).rejects.toThrow(/private network/);
  await expect(fetch("http://[::1]/")).rejects.toThrow(/private network/);
  expect(requests).toBe(0);
});

it("unless the operator named it, or the server is in a private network itself", async () => {
  const named = oauthFetchFor(new URL("https://8.8.8.8/mcp"), address);
  expect((await named(`${address}/token`)).status).toBe(200);
  const own = oauthFetchFor(new URL("http://localhost/mcp"), undefined);
  expect((await own(`${address}/token`)).status).toBe(200);
});
