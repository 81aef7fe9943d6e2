import type { ChatCompletionMessageParam } from "openai/resources";
import { describe, expect, it } from "vitest";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

/** What loop detection said to each answer that the model was given. */
const notices = (rack: ChatRack) =>
  answersIn(rack.requests.at(-1)).map(
    ({ content }) => /Loop notice|Not run, because|Run stopped/.exec(content)?.[0] ?? "plain",
  );

const restart = async (rack: ChatRack) => {
  await rack.serving.close();
  await rack.open();
};

describe("loop detection remembers over a restart", { timeout: 60_000 }, () => {
  async function turn(restarts: boolean): Promise<string[]> {
    await using rack = await ChatRack.start({ chat: { maxRounds: 12 } });
    rack.script((_request, asked) =>
      asked === 3 ? called(["wipe", { what: "all" }]) : called(["add", { a: 1, b: 1 }]),
    );
    const session = await rack.session();
    const { data } = await (await rack.stream(session, "go")).until("approval");
    if (restarts) await restart(rack);
    await rack.ask(`/api/approvals/${data.approval.id}`, { body: { decision: "deny" } });
    await expect
      .poll(async () => (await rack.ask(`/api/chat/sessions/${session}`)).messages.at(-1).status, {
        timeout: 20_000,
      })
      .toBe("completed");
    return notices(rack);
  }

  it("in a turn that goes on when a person has answered", async () => {
    const stayed = await turn(false);
    expect(stayed).toContain("Not run, because");
    expect(await turn(true)).toEqual(stayed);
  });

  async function handedBack(restarts: boolean): Promise<string[]> {
    await using rack = await ChatRack.start();
    rack.script(() => called(["add", { a: 1, b: 1 }], ["pick", {}]));
    const messages: ChatCompletionMessageParam[] = [{ role: "user", content: "go" }];
    for (let round = 0; round < 4; round++) {
      if (restarts && round > 0) await restart(rack);
      const { choices } = await rack.client().chat.completions.create({
        model: "model-a",
        messages,
        tools: [{ type: "function", function: { name: "pick", parameters: { type: "object" } } }],
      });
      const { message } = choices[0]!;
      messages.push(message);
      for (const { id } of message.tool_calls ?? [])
        messages.push({ role: "tool", tool_call_id: id, content: "picked" });
    }
    return notices(rack).filter((_notice, at) => at % 2 === 0);
  }

  it("in a client's conversation that comes back with the results of its own tools", async () => {
    const stayed = await handedBack(false);
    expect(stayed).toContain("Not run, because");
    expect(await handedBack(true)).toEqual(stayed);
  });

  it("and begins anew with every message of a person, as without one", async () => {
    await using rack = await ChatRack.start();
    const once = called(["add", { a: 1, b: 1 }]);
    rack.script((request) => (request.messages.at(-1)?.role === "user" ? once : { content: "2" }));
    const session = await rack.session();
    for (const isAfterRestart of [false, false, true, false]) {
      if (isAfterRestart) await restart(rack);
      await rack.say(session, "1 + 1?");
    }
    expect(notices(rack)).toEqual(["plain", "plain", "plain", "plain"]);
  });
});
