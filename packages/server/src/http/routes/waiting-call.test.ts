import { expect, it } from "vitest";
import { ChatRack } from "../../chat/testing/chat-rack.fixture.ts";

it("a call that waits for a person has one status, wherever it is shown", { timeout: 60_000 }, async () => {
  await using rack = await ChatRack.start();
  const call = rack.ask("/api/tools/wipe/calls", { body: { arguments: { what: "all" }, callId: "waits" } });
  const question = async () => (await rack.ask("/api/approvals")).items[0]?.id;
  await expect.poll(question, { timeout: 20_000 }).toBeDefined();
  const listed = async () => (await rack.ask("/api/calls?status=running")).items;
  await expect.poll(listed, { timeout: 20_000 }).toMatchObject([{ callId: "waits", status: "running" }]);
  const shown = await rack.fetch("/api/calls/waits");
  expect(await shown.json()).toMatchObject({
    callId: "waits",
    status: "running",
    parameters: { what: "all" },
  });
  await rack.ask(`/api/approvals/${await question()}`, { body: { decision: "allow" } });
  expect(await call).toMatchObject({ callId: "waits" });
});
