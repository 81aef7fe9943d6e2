import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { openStore, type Store } from "../store/store.ts";

import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { GrantWatch } from "./grants.ts";
import { issueToken } from "./tokens.ts";

let workspace: TemporaryWorkspace;
let store: Store;
const logger = { debug() {}, info() {}, warn() {}, error() {} };

beforeEach(async () => {
  workspace = await TemporaryWorkspace.create({});
  store = await openStore({ directory: join(workspace.directory, ".toolrack") });
});
afterEach(async () => {
  await store.close();
  await workspace[Symbol.asyncDispose]();
});

const issue = async (name: string) => (await issueToken(store.tokens, { name, scopes: {} })).stored;

it("ends what a token taken back has, and nothing of one that was issued while it was looked", async () => {
  const read = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const list = async () => {
    const known = await store.tokens.list();
    read.resolve();
    await arrived.promise;
    return known;
  };
  const watch = new GrantWatch({ tokens: { list }, follower: store.follower }, logger);
  const ended: string[] = [];
  const old = await issue("old");
  const gone = await issue("gone");
  const releases = [old, gone].map(({ id }) => watch.watch({ id }, () => ended.push(id)));
  await store.tokens.remove(gone.id);
  const looked = watch.look();
  await read.promise;
  const fresh = await issue("fresh");
  releases.push(watch.watch({ id: fresh.id }, () => ended.push(fresh.id)));
  arrived.resolve();
  await looked;
  expect(ended).toEqual([gone.id]);
  for (const release of releases) release();
});

it("ends nothing that was let go while it was looked", async () => {
  const arrived = Promise.withResolvers<void>();
  const watch = new GrantWatch(
    { tokens: { list: () => arrived.promise.then(() => []) }, follower: store.follower },
    logger,
  );
  const end = vi.fn();
  const release = watch.watch({ id: "gone" }, end);
  const looked = watch.look();
  release();
  arrived.resolve();
  await looked;
  expect(end).not.toHaveBeenCalled();
});
