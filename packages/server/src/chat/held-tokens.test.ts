import { afterEach, expect, it, vi } from "vitest";
import { ScriptedUpstream } from "./testing/scripted-upstream.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const upstream = new ScriptedUpstream();
afterEach(() => upstream.stop());

it("tokens that wait while the server is busy go out in their order, before the answer ends", async () => {
  const words = Array.from({ length: 40 }, (_, at) => `${at} `);
  const delta = (content: string, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason }] })}\n\n`;
  let goOn = () => {};
  const wasRead = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const rack = await upstream.start(async (outgoing) => {
    for (const word of words) {
      outgoing.write(delta(word));
      await new Promise((resolve) => setImmediate(resolve));
    }
    // The answer ends only when the client has got every token.
    await wasRead;
    outgoing.end(delta("", "stop"));
  });
  // Every turn of the event loop takes longer than 4 ms.
  let isBusy = true;
  const hold = () => {
    const end = performance.now() + 6;
    while (performance.now() < end);
    if (isBusy) setImmediate(hold);
  };
  hold();
  const messages = [{ role: "user" as const, content: "count" }];
  const stream = await rack.client().chat.completions.create({ model: "model-a", messages, stream: true });
  let text = "";
  for await (const { choices } of stream) {
    text += choices[0]?.delta.content ?? "";
    if (text === words.join("")) goOn();
  }
  isBusy = false;
  expect(text).toBe(words.join(""));
});
