import { expect, it } from "vitest";
import { UpstreamRack } from "../testing/upstream-rack.fixture.ts";
import { type KeptSignIn, SignInVault } from "./sign-in-vault.ts";

const server = "https://mcp.example/";
const kept = (token: string): KeptSignIn => ({
  server,
  authority: { url: "https://login.example/" },
  tokens: { access_token: token, token_type: "Bearer" },
});

it("a sign-in that was refused is forgotten, and one that has taken its place is not", async () => {
  await using rack = await UpstreamRack.create();
  const vault = new SignInVault("guarded", rack.secrets);
  await vault.write(kept("renewed-elsewhere"));
  await vault.clear(kept("refused-here"));
  expect(await vault.read(server)).toEqual(kept("renewed-elsewhere"));
  await vault.clear(kept("renewed-elsewhere"));
  expect(await vault.read(server)).toBeUndefined();
  await vault.clear(kept("renewed-elsewhere"));
  await vault.write(kept("another"));
  await vault.clear();
  expect(await rack.secrets.list()).toEqual([]);
});
