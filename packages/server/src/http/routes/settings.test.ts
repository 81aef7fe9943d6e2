import { expect, it } from "vitest";
import { TestServer } from "../server.fixture.ts";

it("tells an admin what the server runs with", async () => {
  const before = Date.now();
  await using server = await TestServer.start({
    files: {
      "toolrack.config.js":
        "export default { builtins: false, timeout: 5_000, retention: { days: 7 }, server: {} };",
    },
    maxBody: 2_000,
    rateLimit: { perSecond: 5, burst: 10 },
  });
  const { body } = await server.ask("/api/server");
  expect(body).toEqual({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    workspace: server.workspace.directory,
    startedAt: expect.any(Number),
    limits: { maxBody: 2_000, maxCallsPerTool: 256, timeout: 5_000, requestsPerSecond: 5 },
    retention: { days: 7, maxBytes: 1024 ** 3 },
  });
  expect(body.startedAt).toBeGreaterThanOrEqual(before);
});

it("tells an admin how to start the program again, where it was started as one", async () => {
  const program = ["/usr/bin/node", "/opt/toolrack/bin/toolrack.js"];
  await using server = await TestServer.start({ program });
  expect((await server.ask("/api/server")).body.program).toEqual(program);
});

it("says 0 where there is no limit, and nothing to who is no admin", async () => {
  await using server = await TestServer.start({ rateLimit: false });
  expect((await server.ask("/api/server")).body.limits.requestsPerSecond).toBe(0);
  const token = await server.issue({ tools: ["*"] });
  for (const path of ["server", "tokens", "secrets", "settings", "clients", "reloads", "stats"]) {
    const { status, body } = await server.ask(`/api/${path}`, { token });
    expect([path, status, body.error.code]).toEqual([path, 403, "forbidden"]);
  }
});
