import { readdirSync, statSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openStore } from "./store.ts";
import { makeRecord, textResult } from "./testing/records.fixture.ts";

describe("openStore", () => {
  let parent: string;
  beforeEach(async () => {
    parent = await mkdtemp(join(tmpdir(), "toolrack-open-"));
  });
  afterEach(() => rm(parent, { recursive: true, force: true }));

  test("keeps everything for this user only", async () => {
    const directory = join(parent, "a", ".toolrack");
    const store = await openStore({ directory });
    await store.calls.finished(makeRecord(), textResult("x".repeat(100_000)));
    const modes = readdirSync(directory, { recursive: true, withFileTypes: true }).map((entry) => {
      const { mode } = statSync(join(entry.parentPath, entry.name));
      return `${entry.isFile() ? "file" : "directory"} ${(mode & 0o777).toString(8)}`;
    });
    expect(new Set(modes)).toEqual(new Set(["file 600", "directory 700"]));
    expect(statSync(directory).mode & 0o777).toBe(0o711);
    await store.close();
    // Nothing of a store that was closed in order is left but its data.
    expect(readdirSync(join(directory, "instances"))).toEqual([]);
    expect(readdirSync(directory).sort()).toEqual(["blobs", "instances", "toolrack.db"]);
  });

  test("names the database that it cannot open, without its password", async () => {
    const url = "postgres://ann:s3cret@127.0.0.1:1/records";
    const refused = await openStore({ directory: parent, url }).catch((error: Error) => error);
    expect(String(refused)).toMatch(
      /Cannot open the database at postgres:\/\/127\.0\.0\.1:1\/records: .*ECONNREFUSED/,
    );
    expect(String(refused)).not.toContain("s3cret");
    const other = await openStore({ directory: parent, url: "mysql://ann:s3cret@127.0.0.1:1/records" }).catch(
      (error: Error) => error,
    );
    expect(String(other)).toMatch(
      /Cannot open the database at mysql:\/\/127\.0\.0\.1:1\/records: .*ECONNREFUSED/,
    );
  });

  test("refuses a URL of a database that it does not know", async () => {
    await expect(openStore({ directory: parent, url: "mongodb://x:s3cret@y" })).rejects.toThrow(
      /^The database URL begins with mongodb:\/\/\. It must begin with postgres:\/\/, mysql:\/\/ or mariadb:\/\//,
    );
    await expect(openStore({ directory: parent, url: "records" })).rejects.toThrow("is no URL");
  });

  test("says so when the file is something else, or a directory", async () => {
    await writeFile(join(parent, "toolrack.db"), "not a database, but long enough to be one ".repeat(200));
    await expect(openStore({ directory: parent })).rejects.toThrow(
      /Cannot open .*toolrack\.db: file is not a database/,
    );
    const other = join(parent, "other");
    await mkdir(join(other, "toolrack.db"), { recursive: true });
    await expect(openStore({ directory: other })).rejects.toThrow(/Cannot open .*toolrack\.db: EISDIR/);
  });

  test("does not load the drivers of other databases for SQLite", async () => {
    const { spawnSync } = await import("node:child_process");
    const script = `
      const { openStore } = await import(${JSON.stringify(import.meta.resolve("./store.ts"))});
      const store = await openStore({ directory: ${JSON.stringify(parent)} });
      await store.close();
      const { createRequire } = await import("node:module");
      console.log(Object.keys(createRequire(import.meta.url).cache).filter((file) => /node_modules.(pg|mysql2)./.test(file)).length);
    `;
    const flags = ["--conditions=toolrack-source", "--input-type=module", "-e", script];
    const { stdout, stderr } = spawnSync(process.execPath, flags, { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(stdout.trim()).toBe("0");
  });
});
