import { createHash } from "node:crypto";
import { readdir, readFile, symlink, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openTestServer, type TestServer } from "../../access/network/testing/test-server.ts";
import type { InternalToolContext } from "../../calls/internal-tool.ts";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import download from "./download.ts";

const content = Buffer.alloc(3_000_000, "some content ");

let server: TestServer;
let workspace: TestWorkspace;

beforeAll(async () => {
  server = await openTestServer(route);
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  workspace = await openTestWorkspace({}, { network: { allowPrivate: ["127.0.0.1"] } });
});
afterEach(() => workspace[Symbol.asyncDispose]());

const at = (path: string) => server.origin + path;
const files = () => readdir(workspace.directory, { recursive: true });

describe("saving", () => {
  test("the content arrives whole, with its size, type and hash", async () => {
    const saved = await workspace.structured(download, { url: at("/file.bin"), path: "data/deep/x.bin" });
    expect(saved).toMatchObject({
      path: "data/deep/x.bin",
      bytes: content.length,
      contentType: "application/x-test",
      sha256: createHash("sha256").update(content).digest("hex"),
    });
    expect(content.equals(await readFile(workspace.path("data/deep/x.bin")))).toBe(true);
    expect(await files()).toEqual(["data", "data/deep", "data/deep/x.bin"]);
  });

  test("without a path, or with a directory, the server names the file", async () => {
    expect(await workspace.structured(download, { url: at("/file.bin?v=1") })).toMatchObject({
      path: "file.bin",
    });
    const named = { url: at("/named"), path: "inbox/" };
    expect(await workspace.structured(download, named)).toMatchObject({ path: "inbox/evil.sh" });
    expect(await files()).toEqual(expect.arrayContaining(["file.bin", "inbox/evil.sh"]));
  });

  test("a redirect is followed and a compressed body unpacked", async () => {
    const saved = await workspace.structured(download, { url: at("/moved"), path: "a.txt" });
    expect(saved).toMatchObject({ url: at("/squeezed"), redirected: true });
    expect(await readFile(workspace.path("a.txt"), "utf8")).toBe("squeezed");
  });

  test("a file that is there stays, unless it is to be replaced", async () => {
    await writeFile(workspace.path("a.txt"), "mine");
    const input = { url: at("/squeezed"), path: "a.txt" };
    expect(await workspace.failure(download, input)).toContain("already there");
    expect(await readFile(workspace.path("a.txt"), "utf8")).toBe("mine");
    await workspace.structured(download, { ...input, overwrite: true });
    expect(await readFile(workspace.path("a.txt"), "utf8")).toBe("squeezed");
  });

  test("a body that only ends because time is up is not saved", async () => {
    const input = { url: at("/until-closed"), path: "a/part.txt", timeout: 150 };
    expect(await workspace.failure(download, input)).toContain("within 150 ms");
    expect(await files()).toEqual([]);
  });

  test("a place where files have power needs consent, also when the server chooses the name", async () => {
    await using guarded = await openTestWorkspace(
      { "tools/a.ts": "" },
      { network: { allowPrivate: ["127.0.0.1"] } },
    );
    const given = { url: at("/file.bin"), path: "toolrack.config.ts" };
    expect((await guarded.call(download, given)).error?.code).toBe("approval_denied");
    expect((await guarded.call(download, { url: at("/config") })).error?.code).toBe("approval_denied");
    expect(await readdir(guarded.directory)).toEqual(["tools"]);
    guarded.answer = "allow";
    await guarded.structured(download, { url: at("/config") });
    expect(guarded.questions).toEqual([expect.stringContaining("toolrack.config.ts")]);
  });

  test("a file that appears during the download is not replaced either", async () => {
    const call = workspace.failure(download, { url: at("/slow-end"), path: "late.txt" });
    await expect.poll(files).toHaveLength(1);
    await writeFile(workspace.path("late.txt"), "mine");
    release();
    expect(await call).toContain("already there");
    expect(await readFile(workspace.path("late.txt"), "utf8")).toBe("mine");
    expect(await files()).toEqual(["late.txt"]);
  });

  test("progress is reported up to the whole", async () => {
    const seen: unknown[] = [];
    const ctx = {
      workspace: workspace.workspace,
      signal: new AbortController().signal,
      progress: (update: unknown) => seen.push(update),
    } as unknown as InternalToolContext;
    const defaults = { overwrite: false, maxBytes: 10_000_000, timeout: 10_000 };
    // Past the pipeline, which would check the arguments.
    await download.handler({ url: at("/file.bin"), ...defaults } as never, ctx);
    expect(seen.at(-1)).toMatchObject({ progress: content.length, total: content.length });
  });
});

describe("refusing", () => {
  test("a path outside the workspace, also through a link, costs no request", async () => {
    const before = requests.length;
    expect(await workspace.failure(download, { url: at("/file.bin"), path: "../x.bin" })).toContain(
      "outside",
    );
    await symlink("/tmp", workspace.path("link"));
    expect(await workspace.failure(download, { url: at("/file.bin"), path: "link/x.bin" })).toContain("link");
    expect(requests).toHaveLength(before);
  });

  test("private addresses that the operator has not allowed", async () => {
    await using closed = await openTestWorkspace();
    expect(await closed.failure(download, { url: at("/file.bin") })).toContain("Refused to connect");
  });

  test("an error of the server is an error and saves nothing", async () => {
    const result = await workspace.call(download, { url: at("/missing"), path: "new/x.bin" });
    expect(result.type).toBe("error");
    expect(result.content).toMatch(/answered 404[\s\S]*nothing was saved[\s\S]*not here/);
    expect(await files()).toEqual([]);
  });
});

describe("nothing is left behind", () => {
  test("when the announced or the real size is over the limit", async () => {
    for (const path of ["/file.bin", "/no-length"]) {
      const message = await workspace.failure(download, {
        url: at(path),
        path: "new/x.bin",
        maxBytes: 1_000,
      });
      expect(message).toContain("larger than 1,000 bytes");
    }
    expect(await files()).toEqual([]);
  });

  test("when the connection breaks", async () => {
    const message = await workspace.failure(download, { url: at("/cut-off"), path: "new/x.bin" });
    expect(message).toContain("before the whole answer");
    expect(await files()).toEqual([]);
  });

  test("when the time is up", async () => {
    const message = await workspace.failure(download, { url: at("/stuck"), path: "x.bin", timeout: 200 });
    expect(message).toContain("within 200 ms");
    expect(await files()).toEqual([]);
  });

  test("when the call is cancelled", async () => {
    const controller = new AbortController();
    const input = { url: at("/stuck"), path: "new/x.bin" };
    const call = workspace.call(download, input, { signal: controller.signal });
    await expect.poll(files).toHaveLength(2);
    controller.abort();
    expect((await call).type).toBe("error");
    await expect.poll(files).toEqual([]);
  });
});

const requests: string[] = [];
let release = () => {};

const handlers: Record<string, (response: ServerResponse) => unknown> = {
  "/file.bin": (response) =>
    response
      .writeHead(200, { "content-type": "application/x-test", "content-length": content.length })
      .end(content),
  "/no-length": (response) => response.writeHead(200, { "transfer-encoding": "chunked" }).end(content),
  "/named": (response) =>
    response.writeHead(200, { "content-disposition": 'attachment; filename="../../evil.sh"' }).end("x"),
  "/moved": (response) => response.writeHead(302, { location: "/squeezed" }).end(),
  "/squeezed": (response) =>
    response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("squeezed")),
  "/cut-off": (response) =>
    response.writeHead(200, { "content-length": "1000" }).write("only this", () => response.destroy()),
  "/config": (response) =>
    response.writeHead(200, { "content-disposition": 'attachment; filename="toolrack.config.ts"' }).end("x"),
  // Neither a length nor chunks: the body ends where the connection does.
  "/until-closed": (response) => response.socket!.write("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nxx"),
  "/stuck": (response) => response.writeHead(200).write("first"),
  "/slow-end": (response) => {
    response.writeHead(200).write("first");
    release = () => response.end("last");
  },
};

function route(incoming: IncomingMessage, response: ServerResponse): void {
  requests.push(incoming.url!);
  const handler = handlers[new URL(incoming.url!, "http://test").pathname];
  if (handler === undefined) response.writeHead(404, { "content-type": "text/plain" }).end("not here");
  else handler(response);
}
