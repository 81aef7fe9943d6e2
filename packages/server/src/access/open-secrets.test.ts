import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Tool } from "@toolrack/core";
import { redact } from "@toolrack/core/internal";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openStore, type Store } from "../store/store.ts";
import { EncryptionKey, encrypt, type Keyring } from "./encryption.ts";
import { openSecrets } from "./secrets.ts";
import { openValues } from "./settings.ts";

let directory: string;
let store: Store;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-secrets-"));
  store = await openStore({ directory });
});
afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const open = (keyring?: Keyring) => openSecrets({ directory, store, keyring: async () => keyring });

/** Behaves as the one of the system does, with what it holds in memory. */
class MemoryKeyring implements Keyring {
  readonly entries = new Map<string, string>();
  isLocked = false;

  async read(account: string): Promise<string | undefined> {
    this.#check();
    return this.entries.get(account);
  }

  async write(account: string, password: string): Promise<void> {
    this.#check();
    this.entries.set(account, password);
  }

  #check(): void {
    if (this.isLocked) throw new Error("it is locked");
  }
}

describe("secrets", () => {
  it("are masked beside values that somebody holds for as long as they do", async () => {
    const secrets = await open();
    await secrets.set("API_KEY", "of-the-store");
    secrets.maskFor("one", ["first", "second"]);
    secrets.maskFor("other", ["second"]);
    expect([...secrets.values()].sort()).toEqual(["first", "of-the-store", "second", "second"]);
    secrets.maskFor("one", ["third"]);
    expect([...secrets.values()].sort()).toEqual(["of-the-store", "second", "third"]);
    secrets.maskFor("one", []);
    secrets.maskFor("other", []);
    expect([...secrets.values()]).toEqual(["of-the-store"]);
  });

  it("are given back as they were set, after a restart too, and are nowhere in the clear", async () => {
    const value = "s3cret-密码-🔑\nsecond line";
    await (await open()).set("API_KEY", value);
    const again = await open();
    expect(await again.get("API_KEY")).toBe(value);
    expect(await again.get("OTHER")).toBeUndefined();
    const stored = await store.secrets.get("API_KEY");
    expect(stored).toMatch(/^v1\./);
    expect(stored).not.toContain("s3cret");
    expect(JSON.stringify(await again.list())).not.toContain("s3cret");
    for (const file of ["toolrack.db", "toolrack.db-wal"]) {
      expect(await readFile(join(directory, file), "latin1")).not.toContain("s3cret");
    }
  });

  it("are encrypted anew each time, so that equal values do not look equal", async () => {
    const secrets = await open();
    await secrets.set("A", "the same");
    await secrets.set("B", "the same");
    const [a, b] = [await store.secrets.get("A"), await store.secrets.get("B")];
    expect(a!.split(".").at(-1)).not.toBe(b!.split(".").at(-1));
  });

  it("are masked wherever they were set, read, or known at the opening", async () => {
    await (await open()).set("OLD", "value-of-old");
    const secrets = await open();
    await secrets.set("NEW", "value-of-new");
    expect(redact("value-of-old and value-of-new", { values: secrets.values() })).toBe(
      "[redacted] and [redacted]",
    );
  });

  it("are masked here when they were set elsewhere, after the next look", async () => {
    const here = await open();
    const elsewhere = await open();
    await elsewhere.set("LATE", "value-of-late");
    expect([...here.values()]).toEqual([]);
    await here.refresh();
    expect([...here.values()]).toEqual(["value-of-late"]);
  });

  it("are masked with their parts, and only the last of those that are renewed all the time", async () => {
    const secrets = await open();
    await secrets.set("SESSION", "value-of-0");
    for (let round = 1; round <= 100; round++) {
      await secrets.set("SESSION", `value-of-${round}`);
      secrets.learn("SESSION", `part-${round}`);
    }
    const known = [...secrets.values()];
    expect(known).toContain("value-of-100");
    expect(known).toContain("part-99");
    expect(known.length).toBeLessThan(20);
  });

  it("are replaced only while they are what they were thought to be", async () => {
    const secrets = await open();
    expect(await secrets.replace("A", "the new one", "the old one")).toBe(false);
    await secrets.set("A", "the old one");
    expect(await secrets.replace("A", "the new one", "another")).toBe(false);
    expect(await secrets.get("A")).toBe("the old one");
    const elsewhere = await open();
    const outcomes = await Promise.all([
      secrets.replace("A", "new here", "the old one"),
      elsewhere.replace("A", "new elsewhere", "the old one"),
    ]);
    expect(outcomes.filter(Boolean)).toHaveLength(1);
    expect(await secrets.get("A")).toBe(outcomes[0] ? "new here" : "new elsewhere");
    await expect(secrets.replace("A", "", (await secrets.get("A")) ?? "")).rejects.toThrow("empty");
  });

  it("are removed, and names and values that make no sense are refused", async () => {
    const secrets = await open();
    await secrets.set("A", "the value");
    expect(await secrets.remove("A", "another value")).toBe(false);
    expect(await secrets.remove("A")).toBe(true);
    expect(await secrets.remove("A")).toBe(false);
    expect(await secrets.list()).toEqual([]);
    await expect(secrets.set("a b", "the value")).rejects.toThrow("cannot be the name");
    await expect(secrets.set("A", "")).rejects.toThrow("empty");
    await expect(secrets.set("tool/TIMEOUT", "5000")).rejects.toThrow(
      /shorter than 8 characters.*toolrack settings set tool TIMEOUT/,
    );
    expect([...secrets.values()]).not.toContain("5000");
  });

  it("that are short, from before such were refused, are named with what to do", async () => {
    const secrets = await open();
    await secrets.set("tool/TIMEOUT", "long enough");
    const key = await new EncryptionKey(directory, async () => undefined).ensure();
    await store.secrets.set("tool/TIMEOUT", encrypt(key, "tool/TIMEOUT", "5000"));
    const later = await open();
    expect(await later.get("tool/TIMEOUT")).toBe("5000");
    expect(later.problems().join()).toContain("toolrack settings set tool TIMEOUT");
    await later.remove("tool/TIMEOUT");
    expect(later.problems()).toEqual([]);
  });

  it("need no key where there are none", async () => {
    await open();
    await expect(stat(join(directory, "key"))).rejects.toThrow("ENOENT");
  });
});

describe("a value that is not to be trusted", () => {
  it.each<[string, (encrypted: string) => string]>([
    ["changed", (text) => text.slice(0, -2) + (text.endsWith("AA") ? "BB" : "AA")],
    ["cut", (text) => text.split(".").slice(0, 4).join(".")],
    ["with a shorter tag", (text) => text.replace(/^((?:[^.]+\.){3})([^.]{6})[^.]*/, "$1$2")],
    ["in the clear", () => "plain"],
  ])("is refused when it is %s", async (_, change) => {
    const secrets = await open();
    await secrets.set("A", "a value of some length");
    await store.secrets.set("A", change((await store.secrets.get("A"))!));
    await expect(secrets.get("A")).rejects.toThrow("was changed since it was set");
  });

  it("is refused under another name", async () => {
    const secrets = await open();
    await secrets.set("A", "the value of a");
    await store.secrets.set("B", (await store.secrets.get("A"))!);
    await expect(secrets.get("B")).rejects.toThrow("was changed since it was set");
  });

  it("is refused with another key, and can be set again, while others go on", async () => {
    await (await open()).set("A", "the old one");
    await rm(join(directory, "key"));
    expect((await open()).unreadable.get("A")).toContain("is gone");
    const secrets = await open();
    await secrets.set("B", "the new one");
    await expect(secrets.get("A")).rejects.toThrow("another key");
    await secrets.set("A", "set again");
    expect(await secrets.get("A")).toBe("set again");
    expect((await open()).unreadable.size).toBe(0);
  });
});

describe("the key", () => {
  it.skipIf(process.platform === "win32")("is in a file that only its owner can read", async () => {
    await (await open()).set("A", "the value");
    const file = join(directory, "key");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await chmod(file, 0o644);
    await open();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  it("is one, however many make it at once", async () => {
    const all = await Promise.all(Array.from({ length: 8 }, () => open()));
    await Promise.all(all.map((secrets, index) => secrets.set(`S${index}`, `the value ${index}`)));
    const again = await open();
    for (const index of all.keys()) expect(await again.get(`S${index}`)).toBe(`the value ${index}`);
  });

  it("is in the keyring where there is one, and then not in the file", async () => {
    const keyring = new MemoryKeyring();
    await (await open(keyring)).set("A", "the value");
    const [key] = keyring.entries.values();
    const file = await readFile(join(directory, "key"), "utf8");
    expect(file).toMatch(/^keyring:/);
    expect(file).not.toContain(key);
    expect(await (await open(keyring)).get("A")).toBe("the value");
  });

  it("in a keyring that is locked or gone is asked for, and never replaced by another", async () => {
    const keyring = new MemoryKeyring();
    await (await open(keyring)).set("A", "the value");
    keyring.isLocked = true;
    const secrets = await open(keyring);
    expect(secrets.unreadable.get("A")).toContain("it is locked");
    await expect(secrets.set("B", "the value")).rejects.toThrow("it is locked");
    await expect((await open()).get("A")).rejects.toThrow("cannot be reached");
    expect((await secrets.list()).map(({ name }) => name)).toEqual(["A"]);
    keyring.isLocked = false;
    expect(await secrets.get("A")).toBe("the value");
  });

  it("goes to the file when the keyring does not take it", async () => {
    const keyring = new MemoryKeyring();
    keyring.isLocked = true;
    await (await open(keyring)).set("A", "the value");
    expect(await (await open()).get("A")).toBe("the value");
  });

  it("that is damaged is named", async () => {
    await (await open()).set("A", "the value");
    await writeFile(join(directory, "key"), "file:short\n");
    await expect((await open()).get("A")).rejects.toThrow("it is damaged");
  });
});

describe("the values of a tool", () => {
  const tool = Tool.define({
    name: "weather",
    description: "Tells the weather.",
    parameters: { type: "object" },
    metadata: {
      environment: {
        type: "object",
        properties: { API_KEY: { type: "string", format: "password" }, UNIT: { type: "string" } },
        required: ["API_KEY"],
      },
    },
    execute: async () => "sunny",
  });

  it("are read once for many calls, and anew when another process has set or removed some", async () => {
    const values = await openValues({ directory, store });
    const other = await openValues({ directory, store });
    // What is missing is looked for before a call fails.
    await expect(values.environmentOf(tool)).rejects.toThrow("toolrack secrets set weather API_KEY");
    await other.setSecret("weather/API_KEY", "first-secret");
    expect(await values.environmentOf(tool)).toEqual({ API_KEY: "first-secret" });
    await other.setSecret("weather/API_KEY", "second-secret");
    await other.setSetting("UNIT", "metric");
    const reads = [vi.spyOn(store.settings, "get"), vi.spyOn(store.settings, "entries")];
    reads.push(vi.spyOn(store.secrets, "get"), vi.spyOn(store.secrets, "entries"));
    for (let call = 0; call < 3; call++) await values.environmentOf(tool);
    for (const read of reads) expect(read).not.toHaveBeenCalled();
    await values.refresh();
    expect(await values.environmentOf(tool)).toEqual({ API_KEY: "second-secret", UNIT: "metric" });
    await other.removeSetting("UNIT");
    await values.refresh();
    expect(await values.environmentOf(tool)).toEqual({ API_KEY: "second-secret" });
    await other.removeSecret("weather/API_KEY");
    await values.refresh();
    await expect(values.environmentOf(tool)).rejects.toThrow("which is not set");
  });
});
