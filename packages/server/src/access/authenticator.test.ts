import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore, type Store } from "../store/store.ts";

import { Authenticator, hashToken, issueToken } from "./tokens.ts";

let directory: string;
let store: Store;
const master = "the-master-token-of-the-test";

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-"));
  store = await openStore({ directory });
});
afterAll(async () => {
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

describe("Authenticator", () => {
  it("knows the master, who may do everything", async () => {
    const found = await new Authenticator(master, store.tokens).authenticate(bearer(master));
    expect(found).toMatchObject({ ok: true, grant: { admin: true, caller: "http" } });
    expect(found.ok && found.grant.mayUse({ name: "anything" })).toBe(true);
  });

  it("knows issued tokens by their hash, with what they were granted and nothing else", async () => {
    const { token, stored } = await issueToken(store.tokens, {
      name: "ci",
      scopes: { tools: ["file_*"], experts: ["writer"] },
    });
    expect(await store.tokens.findByHash(hashToken(token))).toMatchObject({ id: stored.id });
    expect(JSON.stringify(await store.tokens.list())).not.toContain(token);
    const found = await new Authenticator(master, store.tokens).authenticate(bearer(token));
    if (!found.ok) throw new Error(found.reason);
    const { grant } = found;
    expect(grant).toMatchObject({ admin: false, name: "ci", caller: `ci_${stored.id}` });
    expect([grant.mayUse({ name: "file_read" }), grant.mayUse({ name: "system_execute" })]).toEqual([
      true,
      false,
    ]);
    expect([grant.mayUseExpert("writer"), grant.mayUseExpert("reader")]).toEqual([true, false]);
    await expect.poll(async () => (await store.tokens.list())[0]?.lastUsedAt).toBeGreaterThan(0);
  });

  it("grants nothing to a token whose scopes say nothing", async () => {
    const { token } = await issueToken(store.tokens, { name: "empty", scopes: {} });
    const found = await new Authenticator(master, store.tokens).authenticate(bearer(token));
    expect(
      found.ok && (found.grant.mayUse({ name: "add" }) || found.grant.mayUseExpert("x") || found.grant.admin),
    ).toBe(false);
  });

  it.each([
    [{ authorization: undefined }, "missing"],
    [{ authorization: "" }, "malformed"],
    [{ authorization: "Bearer" }, "malformed"],
    [{ authorization: "Basic dXNlcjpwYXNz" }, "malformed"],
    [{ authorization: `Bearer ${master} extra` }, "malformed"],
    [{ authorization: `Bearer ${master}x` }, "unknown"],
    [{ authorization: `Bearer ${hashToken(master)}` }, "unknown"],
    [{ authorization: "Bearer wrong", query: master }, "unknown"],
  ])("refuses %j: %s", async (credentials, reason) => {
    expect(await new Authenticator(master, store.tokens).authenticate(credentials)).toEqual({
      ok: false,
      reason,
    });
  });

  it("takes a token from the URL where there is no header", async () => {
    const found = await new Authenticator(master, store.tokens).authenticate({
      authorization: undefined,
      query: master,
    });
    expect(found.ok).toBe(true);
  });

  it("refuses a token that has expired, also one it remembers", async () => {
    const { token } = await issueToken(store.tokens, {
      name: "brief",
      scopes: { admin: true },
      expiresAt: Date.now() + 60,
    });
    const authenticator = new Authenticator(master, store.tokens);
    expect((await authenticator.authenticate(bearer(token))).ok).toBe(true);
    await expect
      .poll(() => authenticator.authenticate(bearer(token)))
      .toEqual({ ok: false, reason: "expired" });
  });

  it("refuses a token that was taken back, also one that has let its bearer in many times", async () => {
    const { token, stored } = await issueToken(store.tokens, { name: "gone", scopes: {} });
    const authenticator = new Authenticator(master, store.tokens);
    for (let round = 0; round < 3; round++)
      expect((await authenticator.authenticate(bearer(token))).ok).toBe(true);
    await store.tokens.remove(stored.id);
    authenticator.forget();
    expect(await authenticator.authenticate(bearer(token))).toEqual({ ok: false, reason: "unknown" });
  });

  it("asks the store once for many requests with one token", async () => {
    const { token } = await issueToken(store.tokens, { name: "busy", scopes: {} });
    let asked = 0;
    const findByHash = (hash: string) => {
      asked++;
      return store.tokens.findByHash(hash);
    };
    const counting = Object.create(store.tokens, {
      findByHash: { value: findByHash },
      touch: { value: () => Promise.reject(new Error("read-only")) },
    });
    const authenticator = new Authenticator(master, counting);
    for (let round = 0; round < 5; round++)
      expect((await authenticator.authenticate(bearer(token))).ok).toBe(true);
    expect(asked).toBe(1);
  });
});

it("refuses names that records could not keep", async () => {
  await expect(issueToken(store.tokens, { name: " ", scopes: {} })).rejects.toThrow("needs a name");
  await expect(issueToken(store.tokens, { name: "n".repeat(101), scopes: {} })).rejects.toThrow(
    "100 characters",
  );
});
