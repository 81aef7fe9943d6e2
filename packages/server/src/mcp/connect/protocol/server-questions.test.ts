import { expect, it } from "vitest";
import { type AskableRequest, ServerQuestions } from "./questions.ts";

async function refusalOf(openRequests: readonly (AskableRequest | "given up")[]): Promise<string> {
  const answers: object[] = [];
  const questions = new ServerQuestions({
    server: "s",
    ofTask: () => undefined,
    openRequests: () => openRequests,
    questionTimeout: 1_000,
    roots: [],
    reply: (_id, answer) => void answers.push(answer),
  });
  await questions.take("q", "elicitation/create", {});
  return (answers as { error: { message: string } }[])[0]!.error.message;
}

it("a question that no call could have led to is refused as such", async () => {
  expect(await refusalOf([])).toMatch(/no call is under way/);
});

it("a question that several calls may have led to is refused as such", async () => {
  expect(await refusalOf([{}, {}])).toMatch(/other calls are under way/);
  expect(await refusalOf(["given up"])).toMatch(/were given up a moment ago/);
});
