import { expect, it } from "vitest";
import { testDepth } from "../../../../scripts/test-depth.ts";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

const CONVERSATIONS = testDepth(200, 40);

it("holds many conversations at once, mixes none up, loses nothing and leaves nothing behind", {
  timeout: 120_000,
}, async () => {
  await using rack = await ChatRack.start();
  // What is answered depends on the conversation alone, so that anything that ended up in another one shows.
  rack.script((request) => {
    const asked = request.messages.filter(({ role }) => role === "user");
    const number = Number(/\d+/.exec(String(asked.at(-1)?.content))?.[0]);
    const answers = answersIn(request).slice((asked.length - 1) * 3);
    if (answers.length === 0)
      return called(["add", { a: number, b: 1 }], ["weather", { city: `city ${number}` }]);
    if (answers.length === 2) return called(["write", { text: `${number}` }]);
    return { content: `${answers.map(({ content }) => content).join("; ")}` };
  });
  const numbers = Array.from({ length: CONVERSATIONS }, (_, at) => at);
  const sessions = await Promise.all(numbers.map(() => rack.session()));
  for (const offset of [0, 1_000]) {
    const answers = await Promise.all(
      numbers.map(async (number) => {
        // Half of them are streamed, and some readers leave in the middle.
        if (number % 2 === 0) return rack.say(sessions[number]!, `number ${number + offset}`);
        const reader = await rack.stream(sessions[number]!, `number ${number + offset}`);
        if (number % 6 === 1) {
          await reader.until("call");
          await reader.cancel();
          return undefined;
        }
        const events = await reader.all();
        const pieces = events.filter(({ event }) => event === "text").map(({ data }) => data.text);
        return { parts: [{ text: pieces.join("") }] };
      }),
    );
    for (const [number, answer] of answers.entries()) {
      if (answer === undefined) continue;
      const wanted = number + offset;
      expect(answer.parts.at(-1).text).toBe(`{"sum":${wanted + 1}}; city ${wanted}: 21 °C; wrote ${wanted}`);
    }
    await expect
      .poll(
        async () =>
          (await rack.ask("/api/chat/sessions?limit=500")).items.filter(({ running }: never) => running)
            .length,
      )
      .toBe(0);
  }
  for (const [number, session] of sessions.entries()) {
    const { messages } = await rack.ask(`/api/chat/sessions/${session}`);
    expect(messages.map(({ status }: never) => status)).toEqual([
      "completed",
      "completed",
      "completed",
      "completed",
    ]);
    expect(messages[3].parts.at(-1).text).toContain(`wrote ${number + 1_000}`);
  }
  expect(rack.ran).toHaveLength(CONVERSATIONS * 2 * 3);
  expect(rack.serving.app.registry.activeCalls()).toEqual([]);
  expect((await rack.serving.store.calls.list({ status: "running" })).items).toEqual([]);
});
