import { expect } from "vitest";
import { runSuite } from "../../serve/testing/conformance-suite.ts";
import { startHeaderProxy } from "../../serve/testing/header-proxy.ts";
import { ServedRack } from "../../serve/testing/served-rack.ts";

/** Serves a rack with one server behind it, whose tools have their own names. Resolves when the server is ready. */
export async function rackBefore(entry: object, settings: object = {}): Promise<ServedRack> {
  const every = { ...entry, toolrack: { prefix: "", ...settings } };
  const rack = await ServedRack.open({ "mcp.json": JSON.stringify({ mcpServers: { every } }) });
  await fetch(`${rack.serving.url}/api/mcp-servers/every/restart`, {
    method: "POST",
    headers: { authorization: `Bearer ${rack.token}` },
  });
  return rack;
}

/** Fails unless the server behind the rack passes all that the revision requires, through the rack. */
export async function conforms(rack: ServedRack, revision: string): Promise<void> {
  // The suite cannot be told to send a token.
  const proxy = await startHeaderProxy(rack.serving.url, { authorization: `Bearer ${rack.token}` });
  const run = await runSuite("server", revision, ["--url", `${proxy.url}/mcp`]);
  proxy.close();
  expect(run.passed.length).toBeGreaterThan(30);
  // The server does not know the extension for tasks; all else passes.
  expect(run.failed.filter((name) => !name.startsWith("tasks-"))).toEqual([]);
  expect(run.code, run.output).toBe(0);
}
