import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, it } from "vitest";
import { serveConsole } from "./console.ts";

let folder: string;
let server: Server;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "console-"));
  const dist = join(folder, "dist");
  await mkdir(join(dist, "assets"), { recursive: true });
  await mkdir(join(dist, ".vite"));
  await writeFile(join(dist, "index.html"), "<!doctype html><title>Toolrack</title>");
  await writeFile(join(dist, "assets", "index-abc123.js"), "console.log(1)");
  await writeFile(join(dist, "assets", "index-abc123.js.gz"), gzipSync("console.log(1)"));
  await writeFile(join(dist, ".vite", "manifest.json"), "{}");
  await writeFile(join(folder, "secret.js"), "outside");
  await symlink(join(folder, "secret.js"), join(dist, "link.js"));
  await listen(serveConsole(dist));
});

afterEach(async () => {
  server.close();
  await rm(folder, { recursive: true });
});

it("serves index.html for the root and for every page of the console", async () => {
  for (const path of ["/", "/tools/greeting", "/calls/abc?tab=input"]) {
    const answer = await ask(path, { accept: "text/html,*/*" });
    expect([path, answer.status, answer.text]).toEqual([path, 200, "<!doctype html><title>Toolrack</title>"]);
    expect(answer.headers["cache-control"]).toBe("no-cache");
    expect(answer.headers["content-security-policy"]).toContain("script-src 'self';");
    expect(answer.headers["content-security-policy"]).not.toContain("unsafe");
  }
});

it("leaves the API and everything that is no page to others", async () => {
  for (const path of [
    "/api/tools",
    "/api",
    "/mcp",
    "/mcp/expert",
    "/v1/models",
    "/openai/tools",
    "/metrics",
    "/healthz",
    "/readyz",
    "/openapi.json",
  ]) {
    expect([path, (await ask(path, { accept: "text/html" })).text]).toEqual([path, "somebody else"]);
  }
  expect((await ask("/no/such/path", { accept: "application/json" })).text).toBe("somebody else");
  expect((await ask("/", { accept: "text/html" }, "POST")).text).toBe("somebody else");
});

it("serves files with a hash in their name for good, compressed for who takes it", async () => {
  const plain = await ask("/assets/index-abc123.js");
  expect(plain.text).toBe("console.log(1)");
  expect(plain.headers["content-type"]).toBe("text/javascript; charset=utf-8");
  expect(plain.headers["cache-control"]).toContain("immutable");
  const packed = await ask("/assets/index-abc123.js", { "accept-encoding": "br, gzip" });
  expect(packed.headers["content-encoding"]).toBe("gzip");
  expect(gunzipSync(packed.bytes).toString()).toBe("console.log(1)");
  const refused = await ask("/assets/index-abc123.js", { "accept-encoding": "gzip;q=0" });
  expect(refused.headers["content-encoding"]).toBeUndefined();
});

it("answers 304 to who has the file, and HEAD without a body", async () => {
  const { etag } = (await ask("/")).headers;
  const again = await ask("/", { "if-none-match": String(etag) });
  expect([again.status, again.text]).toEqual([304, ""]);
  const head = await ask("/", {}, "HEAD");
  expect([head.status, head.text, head.headers["content-length"]]).toEqual([200, "", "38"]);
});

it("lets no path lead out of the directory, and shows nothing of the build's own files", async () => {
  const ways = [
    "/../secret.js",
    "/assets/../../secret.js",
    "/%2e%2e/secret.js",
    "/..%2fsecret.js",
    "/link.js",
    "/.vite/manifest.json",
    "//secret.js",
  ];
  for (const path of ways) {
    const { text } = await ask(path);
    expect([path, text.includes("outside"), text === "{}"]).toEqual([path, false, false]);
  }
});

it("says that an asset of another build is gone instead of answering with a page", async () => {
  const answer = await ask("/assets/index-old.js", { accept: "text/html" });
  expect([answer.status, answer.headers["content-type"]]).toEqual([404, "text/plain; charset=utf-8"]);
});

it("says how to build the console when it is not built", async () => {
  server.close();
  await listen(serveConsole(join(folder, "nowhere")));
  const answer = await ask("/", { accept: "text/html" });
  expect([answer.status, answer.text]).toEqual([
    404,
    expect.stringContaining("npm run build -w packages/console"),
  ]);
});

async function listen(handler: ReturnType<typeof serveConsole>): Promise<void> {
  server = createServer((incoming, outgoing) => {
    if (!handler(incoming, outgoing)) outgoing.end("somebody else");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
}

/** Sends the path as it is written; `fetch` would tidy it up first. */
function ask(path: string, headers: Record<string, string> = {}, method = "GET") {
  const { port } = server.address() as AddressInfo; // A server that listens on a port has such an address.
  return new Promise<{ status: number; text: string; bytes: Buffer; headers: Record<string, unknown> }>(
    (resolve, reject) => {
      request({ port, host: "127.0.0.1", path, method, headers, agent: false }, async (answer) => {
        const chunks: Buffer[] = [];
        for await (const chunk of answer) chunks.push(chunk);
        const bytes = Buffer.concat(chunks);
        resolve({ status: answer.statusCode ?? 0, text: bytes.toString(), bytes, headers: answer.headers });
      })
        .on("error", reject)
        .end();
    },
  );
}
