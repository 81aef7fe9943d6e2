import { afterAll, beforeAll, expect, test } from "vitest";
import { revisions, runSuite, SUITE_LIMIT } from "./testing/conformance-suite.ts";
import { startHeaderProxy } from "./testing/header-proxy.ts";
import { conformanceWorkspace, type ServedWorkspace, serveWorkspace } from "./testing/serve-workspace.ts";

let served: ServedWorkspace;
let proxy: Awaited<ReturnType<typeof startHeaderProxy>>;

beforeAll(async () => {
  served = await serveWorkspace(conformanceWorkspace);
  // The suite cannot be told to send a token.
  proxy = await startHeaderProxy(served.url, { authorization: `Bearer ${served.token}` });
}, SUITE_LIMIT);

afterAll(async () => {
  proxy?.close();
  await served?.close();
}, SUITE_LIMIT);

test.each(revisions)(
  "all that %s requires of a server passes the official suite, and so do the extensions",
  async (revision) => {
    const { code, output, passed, failed } = await runSuite("server", revision, [
      "--url",
      `${proxy.url}/mcp`,
    ]);
    expect(passed.length).toBeGreaterThan(30);
    expect(failed).toEqual([]);
    expect(code, output).toBe(0);
  },
  SUITE_LIMIT,
);
