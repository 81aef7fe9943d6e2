import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  findMariadb,
  findPostgres,
  startMariadb,
  startPostgres,
  type TestDatabaseServer,
} from "../builtin-tools/testing/database-servers.ts";
import { ServedWorkspace } from "../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Json = any;

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });
const patient = { timeout: 60_000, interval: 100 };

const postgres = findPostgres();
const mariadb = findMariadb();
const engines = [
  ["PostgreSQL", postgres === undefined ? undefined : () => startPostgres(postgres)],
  ["MariaDB", mariadb === undefined ? undefined : () => startMariadb(mariadb)],
] as const;

const echo = `import { Tool } from "@toolrack/core";
export const echo = Tool.define({ name: "echo", description: "Echoes.",
  parameters: { type: "object", properties: { text: { type: "string" } } }, execute: async ({ input }) => input.text ?? "" });`;

for (const [title, start] of engines) {
  if (start === undefined) console.warn(`SKIPPED: a server whose ${title} goes away. Install it to run it.`);
  describe.skipIf(start === undefined)(`a server whose ${title} goes away`, () => {
    let database: TestDatabaseServer;
    let workspace: TemporaryWorkspace;
    let server: ServedWorkspace;
    let limited: string;

    beforeAll(async () => {
      // Without one the tests are skipped.
      database = await start!();
      workspace = await TemporaryWorkspace.create({
        "toolrack.config.js": "export default { builtins: false };",
        "tools/echo.ts": echo,
      });
      server = await ServedWorkspace.start(workspace.directory, { DATABASE_URL: database.url });
      const { body } = await server.ask("POST", "/api/tokens", {
        name: "limited",
        scopes: { tools: ["echo"] },
      });
      limited = body.token;
      expect((await server.ask("POST", "/api/tools/echo/calls", {}, limited)).status).toBe(200);
    });
    afterAll(async () => {
      await server.end("SIGTERM");
      await workspace[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    });

    test("answers what needs it with 503, keeps the records of calls, and goes on by itself when it is back", async () => {
      const ask = server.ask.bind(server);
      const { body: api } = await ask("GET", "/openapi.json");
      await database.goAway();

      await expect.poll(async () => (await ask("GET", "/readyz")).status, patient).toBe(503);
      expect((await ask("GET", "/readyz")).body.error).toMatchObject({
        code: "not_ready",
        details: { reason: "away", records: { held: 0, mostHeld: 10_000 } },
      });
      expect((await ask("GET", "/healthz")).status).toBe(200);

      const statuses: Record<string, number> = {};
      for (const path of Object.keys(api.paths)) {
        // Streams do not end, and what only speaks of the process needs no database.
        if (api.paths[path].get === undefined || /events|metrics|openapi|healthz|identity/.test(path))
          continue;
        const { status, body, headers } = await ask("GET", path.replaceAll(/\{\w+\}/g, "1"));
        statuses[path] = status;
        if (status !== 503 || path === "/readyz") continue;
        expect(body.error, path).toMatchObject({
          code:
            path.startsWith("/api/chat") || path.startsWith("/v1") ? expect.any(String) : "store_unavailable",
          message: expect.stringMatching(/Ask again|model provider/),
        });
        if (body.error.code === "store_unavailable") expect(headers.get("retry-after")).toBe("5");
      }
      expect(Object.entries(statuses).filter(([, status]) => status === 500)).toEqual([]);
      expect(statuses).toMatchObject({ "/api/calls": 503, "/api/tokens": 503, "/api/calls/{callId}": 503 });
      expect((await ask("POST", "/api/tokens", { name: "x", scopes: {} })).status).toBe(503);

      // Whose token it is has to be looked up in the database.
      await expect
        .poll(async () => (await ask("GET", "/api/tools", undefined, limited)).status, patient)
        .toBe(503);
      const rpc = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "echo", arguments: {} } };
      const refused = await ask("POST", "/mcp", rpc, limited);
      expect([refused.status, refused.body.error.code]).toEqual([503, "store_unavailable"]);
      const read = { ...rpc, method: "resources/read", params: { uri: "toolrack://calls/x/result" } };
      const unread = JSON.stringify((await ask("POST", "/mcp", read)).body);
      expect(unread).toContain("does not answer");
      expect(unread).toContain("store_unavailable");

      const texts = ["one", "two", "three"];
      const calls = await Promise.all(
        texts.map((text) => ask("POST", "/api/tools/echo/calls", { arguments: { text } })),
      );
      expect(calls.map(({ status, body }) => [status, body.recorded])).toEqual(texts.map(() => [200, false]));
      const held = await ask("GET", `/api/calls/${calls[0]!.body.callId}`);
      expect([held.status, held.body.result?.content]).toEqual([200, "one"]);
      expect((await ask("GET", "/readyz")).body.error.details.records.held).toBe(3);
      expect((await ask("GET", "/metrics")).body).toContain("toolrack_records_held 3\n");

      await database.comeBack();
      await expect.poll(async () => (await ask("GET", "/readyz")).body, patient).toEqual({ status: "ready" });
      const { items } = (await ask("GET", "/api/calls?tool=echo")).body;
      expect(items.map((item: Json) => item.resultPreview)).toEqual(expect.arrayContaining(texts));
      expect((await ask("POST", "/api/tools/echo/calls", {}, limited)).body.recorded).toBe(true);
      expect(server.said.match(/does not answer: /g)).toHaveLength(1);
      expect(server.said).toContain("answers again");
      expect(server.said).toContain("the 3 that were kept in memory are written");
    });

    test("leaves the records that it held to the next process when it is killed", async () => {
      await database.goAway();
      const call = await server.call("echo", { text: "held when killed" });
      expect(call.body.recorded).toBe(false);
      await server.end("SIGKILL");
      await database.comeBack();
      server = await ServedWorkspace.start(workspace.directory, { DATABASE_URL: database.url });
      const { status, body } = await server.ask("GET", `/api/calls/${call.body.callId}`);
      expect([status, body.result?.content]).toEqual([200, "held when killed"]);
    });
  });
}
