import { expect, it } from "vitest";
import { type RefusalFacts, UpstreamError } from "../failures.ts";
import type { Message } from "./messages.ts";
import { TaskRuns } from "./task-runs.ts";

const failed = (kind: UpstreamError["kind"], facts: RefusalFacts = {}) =>
  new UpstreamError(kind, "It said something", facts);

/** Follows a task of the older protocol whose requests are answered, or fail, with these. */
function follow(answers: Readonly<Record<string, Message | Error>>): Promise<unknown> {
  const runs = new TaskRuns({
    server: "far",
    roots: [],
    questionTimeout: 1_000,
    isModern: () => false,
    exchange: async ({ method }) => {
      const answer = answers[method];
      if (answer instanceof Error) throw answer;
      return answer;
    },
    onGivenUp() {},
  });
  return runs.follow(
    { taskId: "t", status: "working", pollInterval: 1 },
    { method: "tools/call", params: { name: "work" } },
  );
}

const completed = { taskId: "t", status: "completed" };

it.each([
  ["the task is not known", { "tasks/get": failed("refused", { code: -32_602 }) }],
  ["the task is not found", { "tasks/get": failed("refused", { status: 404 }) }],
  ["the session is forgotten", { "tasks/get": failed("session", { status: 404 }) }],
  ["looks time out", { "tasks/get": failed("timeout") }],
  ["looks meet a gateway", { "tasks/get": failed("refused", { status: 502 }) }],
  ["the result times out", { "tasks/get": completed, "tasks/result": failed("timeout") }],
  ["the result is not given", { "tasks/get": completed, "tasks/result": failed("refused", { status: 500 }) }],
  ["too much is asked", { "tasks/get": completed, "tasks/result": failed("refused", { status: 429 }) }],
])("what became of a task is unknown when %s", { timeout: 30_000 }, async (_, answers) => {
  await expect(follow(answers)).rejects.toMatchObject({
    kind: "broken",
    message:
      "The task that it had begun can be followed no longer: It said something. What it had already done may stand: check before calling it again.",
  });
});

it("a task that cannot be reached is lost", async () => {
  await expect(follow({ "tasks/get": failed("unavailable") })).rejects.toMatchObject({ kind: "lost" });
});

it.each([
  ["refused by its server", { "tasks/get": completed, "tasks/result": failed("refused", { code: 1 }) }],
  [
    "said to have failed, whatever status that comes with",
    {
      "tasks/get": { ...completed, status: "failed" },
      "tasks/result": failed("refused", { status: 502, code: 1 }),
    },
  ],
])("the outcome of one that is %s is known", async (_, answers) => {
  const thrown = await follow(answers).catch((error: unknown) => error);
  expect(thrown).toMatchObject({ kind: "refused", message: "It said something" });
  // Which would be taken for that of the call.
  expect((thrown as UpstreamError).facts).toEqual({ code: 1 });
});
