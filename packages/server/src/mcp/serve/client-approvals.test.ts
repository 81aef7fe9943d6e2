import { afterAll, beforeAll, expect, test } from "vitest";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;
const eras: Era[] = ["modern", "legacy"];

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "deletes", metadata: { dangerous: true }, parameters: { type: "object" }, execute: async () => "deleted"',
      'name: "asks", execute: async ({ elicit }) => JSON.stringify(await elicit({ message: "How many?", schema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] } }))',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

/** Calls the tool as a client whose person gives these answers, one after the other. */
async function call(era: Era, name: string, answers: object[], args: object = {}) {
  const heard: string[] = [];
  const client = await rack.connect(
    era,
    { capabilities: { elicitation: {} } },
    {
      prepare(made) {
        made.setRequestHandler("elicitation/create", async ({ params }) => {
          heard.push(params.message);
          return (answers.length > 1 ? answers.shift() : answers[0]) as { action: "accept" };
        });
      },
    },
  );
  const result = await client.callTool({ name, arguments: { ...args } });
  return { text: (result as { content: { text: string }[] }).content[0]!.text, heard };
}

const yes = { action: "accept", content: { approve: true } };

test.each(eras)("a person at a %s client whose answer does not fit is asked again", async (era) => {
  const wrong = { action: "accept", content: { approve: "yes" } };
  const { text, heard } = await call(era, "deletes", [wrong, yes]);
  expect(text).toBe("deleted");
  expect(heard).toHaveLength(2);
});

test("a client whose answers never fit is told so, and nothing runs", async () => {
  const wrong = { action: "accept", content: { approve: "yes" } };
  const denied = await call("legacy", "deletes", [wrong]);
  expect(denied.text).toContain("answers did not fit");
  expect(denied.heard).toHaveLength(3);
  const failed = await call("legacy", "asks", [{ action: "accept", content: { n: "four" } }]);
  expect(failed.text).toContain("answers did not fit");
  expect((await rack.serving.store.approvals.list({ state: "pending", limit: 10 })).items).toEqual([]);
});

test.each(eras)("a person at a %s client is shown every argument, however long others are", async (era) => {
  const { heard } = await call(era, "deletes", [yes], { a: "x".repeat(5_000), cmd: "rm -rf /" });
  expect(heard[0]).toContain('"cmd": "rm -rf /"');
  expect(heard[0]).toMatch(/"a": "x+…" \(\d+ more characters\)/);
});

test("a client that answers the question with an error is told that it waits in the inbox", async () => {
  const said = Promise.withResolvers<string>();
  const client = await rack.connect(
    "legacy",
    { capabilities: { elicitation: {} } },
    {
      prepare(made) {
        made.setRequestHandler("elicitation/create", () => {
          throw new Error("nobody is here");
        });
        made.setNotificationHandler("notifications/message", ({ params }) =>
          said.resolve(String(params.data)),
        );
      },
    },
  );
  const result = client.callTool({ name: "deletes", arguments: {} });
  const text = await said.promise;
  const { items } = await rack.serving.store.approvals.list({ state: "pending", limit: 10 });
  expect(text).toContain("nobody is here");
  expect(text).toContain(`toolrack approvals approve ${items[0]!.id}`);
  await fetch(`${rack.serving.url}/api/approvals/${items[0]!.id}`, {
    method: "POST",
    headers: { authorization: `Bearer ${rack.token}`, "content-type": "application/json" },
    body: JSON.stringify({ decision: "allow" }),
  });
  expect((await result).content).toEqual([{ type: "text", text: "deleted" }]);
});
