import type { ChatCompletionRequest, FixtureResponse } from "@copilotkit/aimock";
import { afterAll, it } from "vitest";
import { describeConsole } from "./describe-console.ts";
import { ScriptedModel } from "./scripted-model.ts";

let model: ScriptedModel;
afterAll(() => model?.close());

describeConsole(
  "a conversation whose connection breaks",
  ({ server, open }) => {
    it("goes on where it broke off, with what happened meanwhile", async () => {
      const page = await open({ path: "/chat" });
      await page.getByRole("textbox", { name: "Message" }).fill("Write a report.");
      await page.keyboard.press("Enter");
      await page.getByText("First I write it.").waitFor();
      await page.getByRole("button", { name: /Section \d+/ }).waitFor();
      server().disconnect();
      await page.getByText(/Not connected|Connecting/).waitFor();
      server().reconnect();
      await page.getByText("It is written.").waitFor({ timeout: 60_000 });
      await page.getByText("First I write it.").waitFor();
      await page.getByRole("button", { name: "Send" }).waitFor();
    });
  },
  async () => {
    model = await ScriptedModel.start(script);
    return { files: model.files(), canBeCut: true };
  },
);

function script({ messages }: ChatCompletionRequest): FixtureResponse {
  if (messages.some(({ role }) => role === "tool")) return { content: "It is written." };
  // More than twenty sections take their time.
  return {
    content: "First I write it.",
    toolCalls: [{ name: "report", arguments: '{"steps":21}' }],
  };
}
