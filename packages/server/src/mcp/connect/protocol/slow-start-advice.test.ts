import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { UpstreamRack } from "../testing/upstream-rack.fixture.ts";

it("a server whose package is never fetched says what may be in the way, and what was written last", async () => {
  await using rack = await UpstreamRack.create();
  const npx = join(rack.directory, "npx");
  await writeFile(npx, "#!/bin/sh\necho 'fetching' >&2\nexec sleep 60\n");
  await chmod(npx, 0o755);
  const limits = { connect: 500 };
  await rack.open({
    fetched: { command: npx, args: ["-y", "some-server"], toolrack: { limits } },
    plain: { command: "sleep", args: ["60"], toolrack: { limits } },
  });
  await Promise.all([rack.until("fetched", "backoff"), rack.until("plain", "backoff")]);
  const { reason } = rack.servers.get("fetched");
  expect(reason).toMatch(
    /handshake within 500 ms\. npx may .*HTTPS_PROXY, NODE_EXTRA_CA_CERTS.*install.*It wrote: fetching$/,
  );
  expect(rack.servers.get("plain").reason).toMatch(/handshake within 500 ms\.$/);
});
