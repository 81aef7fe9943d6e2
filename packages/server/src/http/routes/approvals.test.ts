import type { ApprovalDecision } from "@toolrack/core";
import { expect, it } from "vitest";
import { StreamReader, sampleTools, TestServer } from "../server.fixture.ts";

it("tells of questions and answers, and a stream that waited for one ends with the refusal", async () => {
  const answers: PromiseWithResolvers<ApprovalDecision>[] = [];
  const ask = () => {
    const answer = Promise.withResolvers<ApprovalDecision>();
    answers.push(answer);
    return answer.promise;
  };
  await using server = await TestServer.start({ tools: sampleTools().tools, open: { approval: { ask } } });
  const events = new StreamReader(await server.fetch("/api/events"));
  await events.until("ready");

  const headers = { accept: "text/event-stream" };
  const response = await server.fetch("/api/tools/wipe/calls", { method: "POST", headers, body: {} });
  expect(response.status).toBe(200);
  const stream = new StreamReader(response);
  expect((await stream.until("state")).data.status).toBe("pending");
  expect((await events.until("call.approval_requested")).data).toMatchObject({
    toolName: "wipe",
    dangerous: true,
  });
  answers[0]!.resolve({ decision: "deny", reason: "not on a Friday" });
  const rest = await stream.all();
  expect(rest.map(({ event }) => event)).toEqual(["error"]);
  expect(rest[0]!.data.error).toMatchObject({
    code: "approval_denied",
    details: { reason: "not on a Friday" },
  });
  expect((await events.until("call.approval_resolved")).data).toMatchObject({
    decision: "deny",
    reason: "not on a Friday",
  });

  const allowed = server.call("wipe");
  await events.until("call.approval_requested");
  answers[1]!.resolve({ decision: "allow" });
  expect((await allowed).body.result.content).toBe("wiped");
  await events.cancel();
});
