import { expect, it } from "vitest";
import type { ServerContext } from "../server-context.ts";
import { UpstreamRack } from "../testing/upstream-rack.fixture.ts";
import { SignIn } from "./sign-in.ts";
import { type KeptSignIn, SignInVault, type VaultSecrets } from "./stored-sign-in.ts";

const server = "https://mcp.example/";
const kept = (token: string): KeptSignIn => ({
  server,
  authority: { url: "https://login.example/" },
  tokens: { access_token: token, token_type: "Bearer" },
});

it("a sign-in that was refused is forgotten and never renewed, and one that has taken its place is not", async () => {
  await using rack = await UpstreamRack.create();
  const vault = new SignInVault("guarded", rack.secrets);
  await vault.write(kept("renewed-elsewhere"));
  await vault.clear(kept("refused-here"));
  expect(await vault.read(server)).toEqual(kept("renewed-elsewhere"));
  await vault.clear(kept("renewed-elsewhere"));
  expect(await vault.read(server)).toBeUndefined();
  expect(await vault.replace(kept("renewed-here"), kept("renewed-elsewhere"))).toBe(false);
  expect(await vault.read(server)).toBeUndefined();
  await vault.clear(kept("renewed-elsewhere"));
  await vault.write(kept("another"));
  await vault.clear();
  expect(await rack.secrets.list()).toEqual([]);
});

it("what is taken out is what was kept in the end, also when another process writes meanwhile", async () => {
  await using rack = await UpstreamRack.create();
  const other = new SignInVault("guarded", rack.secrets);
  let isFirst = true;
  const vault = new SignInVault("guarded", {
    ...bound(rack.secrets),
    async remove(...given) {
      if (isFirst) await other.replace(kept("renewed-elsewhere"), kept("read-here"));
      isFirst = false;
      return rack.secrets.remove(...given);
    },
  });
  await vault.write(kept("read-here"));
  expect(await vault.take(server)).toEqual(kept("renewed-elsewhere"));
  expect(await rack.secrets.list()).toEqual([]);
  expect(await vault.take(server)).toBeUndefined();
});

it("what cannot be read, or is for another server, is taken out all the same", async () => {
  await using rack = await UpstreamRack.create();
  const vault = new SignInVault("guarded", rack.secrets);
  await vault.write(kept("of-another"));
  expect(await vault.take("https://other.example/")).toBeUndefined();
  expect(await rack.secrets.list()).toEqual([]);
  await rack.secrets.set("mcp-oauth.guarded", "this is no JSON");
  expect(await vault.take(server)).toBeUndefined();
  expect(await rack.secrets.list()).toEqual([]);
  await rack.store.secrets.set("mcp-oauth.guarded", "of another key");
  await expect(vault.read(server)).rejects.toThrow();
  expect(await vault.take(server)).toBeUndefined();
  expect(await rack.secrets.list()).toEqual([]);
});

it("what was read while somebody signed out does not sign in again", async () => {
  await using rack = await UpstreamRack.create();
  await new SignInVault("guarded", rack.secrets).write(kept("signed-out"));
  const begun = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  let isFirst = true;
  const vault = new SignInVault("guarded", {
    ...bound(rack.secrets),
    async get(name) {
      const text = await rack.secrets.get(name);
      if (!isFirst) return text;
      isFirst = false;
      begun.resolve();
      await over.promise;
      return text;
    },
  });
  const surroundings = { directory: rack.directory, environment: {}, secret: async () => undefined };
  const context = { surroundings, mask: (text: string) => text, onChange() {} };
  const entry = { url: server };
  const owner = {
    key: "guarded",
    wanted: { key: "guarded", entry, place: "file", isEnabled: true },
    context: context as unknown as ServerContext, // A sign-in uses nothing else of it.
    place: "mcp.json",
    upstream: { catalogue: {} },
  } as const;
  const signIn = new SignIn(owner, entry, vault);
  const asked = signIn.isSignedIn();
  await begun.promise;
  await signIn.end();
  over.resolve();
  expect(await asked).toBe(false);
  expect(signIn.view.signedIn).toBe(false);
});

function bound(secrets: VaultSecrets): VaultSecrets {
  return {
    get: (name) => secrets.get(name),
    set: (name, value) => secrets.set(name, value),
    replace: (name, value, before) => secrets.replace(name, value, before),
    remove: (name, value) => secrets.remove(name, value),
    learn: (name, value) => secrets.learn(name, value),
  };
}
