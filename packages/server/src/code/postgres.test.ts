import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findPostgres, startPostgres } from "../builtin-tools/testing/database-servers.ts";
import { ServedWorkspace } from "../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { files, paying } from "./noted-runs.fixture.ts";

const postgres = findPostgres();
if (postgres === undefined) console.warn("SKIPPED: runs of code on PostgreSQL, which is not installed.");

describe.skipIf(postgres === undefined)("a run of code whose records are in PostgreSQL", () => {
  it("goes on after kill -9 while somebody is asked, and makes each call once", {
    timeout: 120_000,
  }, async () => {
    await using database = await startPostgres(postgres!);
    await using workspace = await TemporaryWorkspace.create(files);
    const environment = {
      DATABASE_URL: database.url,
      TOOLRACK_KEY: randomBytes(32).toString("base64"),
      TOOLRACK_OPERATOR_TOKEN: randomBytes(24).toString("base64url"),
    };
    const start = () => ServedWorkspace.start(workspace.directory, environment);
    const question = async (server: ServedWorkspace) => {
      const items = async () => (await server.ask("GET", "/api/approvals?state=pending")).body.items;
      await expect.poll(async () => (await items()).length, { timeout: 30_000 }).toBe(1);
      return (await items())[0];
    };

    await using first = await start();
    const code = `const found = await search("note");\n${paying}`;
    const lost = first.ask("POST", "/api/code", { code, callId: "run" }).catch(() => "lost");
    const asked = await question(first);
    await first.end("SIGKILL");
    expect(await lost).toBe("lost");

    await using next = await start();
    const run = async () => (await next.ask("GET", "/api/calls/run")).body;
    const still = await question(next);
    expect([still.id, still.run.line, (await run()).status]).toEqual([asked.id, 5, "running"]);
    await next.ask("POST", `/api/approvals/${asked.id}`, { decision: "allow" });
    await expect.poll(async () => (await run()).status, { timeout: 60_000 }).toBe("completed");
    expect((await run()).result.structured).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
    const ran = await readFile(join(workspace.directory, "ran.txt"), "utf8");
    const each = ["note 1", "note 1", "note 2", "note 3", "note 5", "pay 4"];
    expect(ran.trim().split("\n").toSorted()).toEqual(each);
    const { items } = (await next.ask("GET", "/api/calls?root=run")).body;
    expect(items.map(({ status }: { status: string }) => status)).toEqual(Array(8).fill("completed"));
  });
});
