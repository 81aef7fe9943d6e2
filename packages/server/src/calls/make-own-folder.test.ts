import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EncryptionKey } from "../access/encryption.ts";
import { ensureMasterToken } from "../access/tokens.ts";
import { CompileCache } from "../files/loader/compile-cache.ts";
import { makeOwnFolder } from "../helpers/private-files.ts";
import { openStore } from "../store/store.ts";

let workspace: string;
let folder: string;
beforeEach(() => {
  workspace = mkdtempSync(join(tmpdir(), "toolrack-own-"));
  folder = join(workspace, ".toolrack");
});
afterEach(() => rmSync(workspace, { recursive: true, force: true }));

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

describe.skipIf(process.platform === "win32")("the folder of a workspace's server", () => {
  const makers: readonly [string, () => Promise<unknown>][] = [
    ["the token", () => ensureMasterToken(workspace)],
    ["the key", () => new EncryptionKey(folder, async () => undefined).ensure()],
    ["the store", async () => (await openStore({ directory: folder })).close()],
    [
      "the cache",
      async () => {
        const cache = new CompileCache(join(folder, "cache", "compiled"));
        cache.add("key", { code: "", map: "{}" } as never); // Only that something is written counts here.
        await cache.settle();
      },
    ],
  ];

  it.each(makers)("lets others pass and not look around when %s is the first in it", async (_what, make) => {
    await make();
    expect(modeOf(folder)).toBe("711");
  });

  it("is opened as far as it has to be when it was closed before", () => {
    mkdirSync(folder, { mode: 0o700 });
    makeOwnFolder(folder);
    expect(modeOf(folder)).toBe("711");
  });

  it("keeps what the operator opened further", () => {
    mkdirSync(folder);
    chmodSync(folder, 0o2770);
    makeOwnFolder(folder);
    expect(modeOf(folder)).toBe("771");
    expect(statSync(folder).mode & 0o2000).toBe(0o2000);
  });

  it("is made the same under a mask that closes everything", () => {
    const before = process.umask(0o077);
    try {
      makeOwnFolder(folder);
    } finally {
      process.umask(before);
    }
    expect(modeOf(folder)).toBe("711");
  });

  it("holds nothing private that others could read", async () => {
    for (const [, make] of makers) await make();
    for (const name of ["token", "key", "toolrack.db", "cache/compiled"])
      expect(`${name} ${modeOf(join(folder, name))}`).toBe(`${name} 600`);
    expect(modeOf(join(folder, "instances"))).toBe("700");
  });
});
