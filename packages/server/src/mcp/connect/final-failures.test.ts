import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import { DependencyStore } from "../../sandbox/dependencies.ts";
import { startRegistry } from "../../sandbox/testing/test-registry.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
const logger = { debug() {}, info() {}, warn() {}, error() {} };

it("a server that speaks an unknown version of the protocol has failed, and says which", async () => {
  await using rack = await UpstreamRack.create();
  await rack.open({ odd: { command: process.execPath, args: [odd], env: { ODD_VERSION: "2099-01-01" } } });
  await rack.until("odd", "failed");
  expect(rack.servers.get("odd").reason).toMatch(/version "2099-01-01" of the protocol.*Update the rack/);
});

it("a package that cannot be a server has failed, and says what to write", async () => {
  const folder = await mkdtemp(join(tmpdir(), "toolrack-final-"));
  const registry = await startRegistry({ "toolrack-test-left": { "1.0.0": "" } });
  try {
    await registry.useFor(folder);
    await mkdir(join(folder, "deps"));
    const packages = new DependencyStore({
      directory: join(folder, "deps"),
      npmrc: join(folder, ".npmrc"),
      logger,
    });
    await using rack = await UpstreamRack.create();
    const installing = (install: string) => ({ toolrack: { install } });
    await rack.open(
      {
        unversioned: installing("toolrack-test-left"),
        repository: installing("github:foo/bar@1.0.0"),
        path: installing("../../x@1.0.0"),
        library: installing("toolrack-test-left@1.0.0"),
        version: installing("toolrack-test-left@9.9.9"),
        unknown: installing("toolrack-test-nothing@1.0.0"),
      },
      { packages },
    );
    for (const { key } of rack.servers.list()) await rack.until(key, "failed");
    const reason = (key: string) => rack.servers.get(key).reason;
    expect(reason("unversioned")).toMatch(/Write its name and version/);
    expect(reason("repository")).toMatch(/"github:foo\/bar@1\.0\.0" is no package to install/);
    expect(reason("path")).toMatch(/is no package to install/);
    expect(reason("library")).toMatch(/has no program to run/);
    expect(reason("version")).toMatch(/"toolrack-test-left" could not be installed/);
    expect(reason("unknown")).toMatch(/"toolrack-test-nothing" could not be installed/);
    for (const { nextAttemptAt } of rack.servers.list()) expect(nextAttemptAt).toBeUndefined();
  } finally {
    await registry.close();
    await rm(folder, { recursive: true, force: true });
  }
});

it("a registry that is away is tried again", async () => {
  const folder = await mkdtemp(join(tmpdir(), "toolrack-final-"));
  await writeFile(join(folder, ".npmrc"), "registry=http://127.0.0.1:9/\n");
  try {
    const packages = new DependencyStore({
      directory: join(folder, "deps"),
      npmrc: join(folder, ".npmrc"),
      logger,
    });
    await using rack = await UpstreamRack.create();
    await rack.open({ away: { toolrack: { install: "toolrack-test-left@1.0.0" } } }, { packages });
    await rack.until("away", "backoff");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it("what is said of a redirect and of a silent server names no setting or number of others", async () => {
  const http = createServer((incoming, outgoing) => {
    if (incoming.url === "/moved") outgoing.writeHead(307, { location: "http://other.example/mcp" }).end();
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  try {
    await using rack = await UpstreamRack.create();
    await rack.open({
      moved: { url: `${origin}/moved` },
      silent: { url: `${origin}/silent`, toolrack: { limits: { connect: 1_000 } } },
    });
    await rack.until("moved", "backoff");
    await rack.until("silent", "backoff");
    expect(rack.servers.get("moved").reason).toBe(
      "It redirects to another place, where the rack does not follow. If http://other.example/mcp is the server that is meant, make that the url of its entry.",
    );
    expect(rack.servers.get("silent").reason).not.toMatch(/\d\.\d/);
  } finally {
    http.closeAllConnections();
    http.close();
  }
});
