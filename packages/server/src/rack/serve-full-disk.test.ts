import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { spawnCli } from "../cli/testing/spawn-cli.ts";
import { ServedWorkspace } from "../testing/served-workspace.ts";
import { SmallDisk, smallDiskMissing } from "../testing/small-disk.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Json = any;

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 });
const patient = { timeout: 60_000, interval: 100 };

const tools = `import { Tool } from "@toolrack/core";
const parameters = { type: "object", properties: { n: { type: "integer" }, size: { type: "integer" } } };
export const say = Tool.define({ name: "say", description: "Says.", parameters,
  execute: async ({ input }) => String(input.n) + ":" + "x".repeat(input.size ?? 0) });
export const many = Tool.define({ name: "many", description: "Calls another without end.", parameters,
  execute: async ({ signal, call }) => { for (let n = 0; !signal.aborted; n++) { await call("say", { n }); await new Promise(setImmediate); } return "ended"; } });`;

const missing = smallDiskMissing();
if (missing !== undefined) console.warn(`SKIPPED: a server whose disk is full. ${missing}`);

describe.skipIf(missing !== undefined)("a server whose disk is full", () => {
  let disk: SmallDisk;
  let server: ServedWorkspace;
  const open = async (megabytes: number) => {
    disk = await SmallDisk.mount(megabytes);
    mkdirSync(join(disk.directory, "tools"));
    writeFileSync(join(disk.directory, "tools/all.ts"), tools);
    writeFileSync(join(disk.directory, "toolrack.config.js"), "export default { builtins: false };");
    server = await ServedWorkspace.start(disk.directory);
  };
  afterEach(async () => {
    await server[Symbol.asyncDispose]();
    await disk[Symbol.asyncDispose]();
  });
  const ready = async () => (await server.ask("GET", "/readyz")).body;

  describe("for a while", () => {
    beforeEach(() => open(32));

    test("says so, loses neither record nor line of the log, and writes them when there is room", async () => {
      expect((await server.call("say", { n: 0 })).body.recorded).toBe(true);
      expect(await ready()).toEqual({ status: "ready" });
      disk.fill();
      const numbers = Array.from({ length: 60 }, (_, n) => n + 1);
      const unsafe: number[] = [];
      for (const n of numbers) {
        // Every fifth has a result that is too long for the database itself.
        const { status, body } = await server.call("say", { n, size: n % 5 === 0 ? 100_000 : 100 });
        expect(status).toBe(200);
        if (!body.recorded) unsafe.push(n);
      }
      // Some still fit into room that files had already.
      expect(unsafe.length).toBeGreaterThan(10);
      const degraded = await server.ask("GET", "/readyz");
      expect([degraded.status, degraded.body]).toMatchObject([
        200,
        { status: "degraded", reason: "full", freeBytes: expect.any(Number), records: { mostHeld: 10_000 } },
      ]);
      expect(degraded.body.records.held).toBeGreaterThan(0);
      expect((await server.ask("GET", "/metrics")).body).toMatch(/^toolrack_records_held [1-9]/m);
      const doctor = await spawnCli(["doctor", "--json"], { cwd: disk.directory });
      const checks: Json[] = JSON.parse(doctor.stdout).checks;
      expect(checks.find(({ name }) => name === "server")).toMatchObject({ status: "warn" });
      expect(checks.find(({ name }) => name === "disk")).toMatchObject({ status: "fail" });
      const name = "x".repeat(60);
      let refused = await server.ask("POST", "/api/tokens", { name, scopes: {} });
      // The first may still fit.
      for (let tries = 0; refused.status < 300 && tries < 500; tries++)
        refused = await server.ask("POST", "/api/tokens", { name, scopes: {} });
      expect([refused.status, refused.body.error.code]).toEqual([503, "store_unavailable"]);

      disk.makeRoom();
      await expect.poll(ready, patient).toEqual({ status: "ready" });
      const { items: stored } = (await server.ask("GET", "/api/calls?tool=say&limit=500")).body;
      const found = stored.map((item: Json) => Number(/^(\d+):/.exec(item.resultPreview)?.[1]));
      expect(found.toSorted((one: number, other: number) => one - other)).toEqual([0, ...numbers]);
      const { items } = (await server.ask("GET", "/api/calls?text=60:x")).body;
      const { body: whole } = await server.ask(
        "GET",
        `/api/calls/${items[0].callId}/result?offset=90000&limit=50000`,
      );
      expect(JSON.stringify(whole)).toContain("x".repeat(10_000));
      expect(server.said).toContain("The store takes records again");
      await server.end("SIGTERM");
      const logged = readFileSync(join(disk.directory, "log/ToolBox.log"), "utf8")
        .split("\n")
        .flatMap((line) => {
          try {
            return [JSON.parse(line).args.n];
          } catch {
            return []; // What was cut when there was no room for the whole line.
          }
        });
      expect(logged).toEqual([0, ...numbers]);
    });
  });

  describe("for long", () => {
    beforeEach(() => open(256));

    test("refuses calls once as much as is kept in memory waits, and ends calls that make others", async () => {
      disk.fill();
      let last = await server.call("say", { n: 1, size: 9_000_000 });
      for (let n = 2; last.status === 200 && n < 20; n++)
        last = await server.call("say", { n, size: 9_000_000 });
      expect([last.status, last.body.error]).toMatchObject([
        503,
        { code: "store_unavailable", details: { reason: "full", heldRecords: 8 } },
      ]);
      expect(last.headers.get("retry-after")).toBe("5");
      const rpc = {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "say", arguments: { n: 1 } },
      };
      const overMcp = JSON.stringify((await server.ask("POST", "/mcp", rpc)).body);
      expect(overMcp).toContain("store cannot take records now");
      const unready = await server.ask("GET", "/readyz");
      expect([unready.status, unready.body.error.code]).toEqual([503, "not_ready"]);
      disk.makeRoom();
      await expect.poll(ready, patient).toEqual({ status: "ready" });
      expect((await server.ask("GET", "/api/calls?tool=say&status=completed")).body.items).toHaveLength(8);
    });

    test("ends a call that makes others, rather than keep their records without end", async () => {
      disk.fill();
      const looping = server.call("many", {});
      for (let n = 1; n <= 8; n++) await server.call("say", { n, size: 9_000_000 });
      expect(JSON.stringify((await looping).body)).toContain("no more are kept");
    });
  });
});
