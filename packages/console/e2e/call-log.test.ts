import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";

const files = {
  "tools/talk.ts": `import { Tool } from "@toolrack/core";

export const talk = Tool.define({
  name: "talk",
  description: "Says what it does.",
  parameters: { type: "object", properties: { lines: { type: "integer", default: 0 }, waits: { type: "boolean" } } },
  execute: async ({ input, logger, progress, signal }) => {
    console.log("printed %d", 1);
    logger.warn("the disk is nearly full");
    progress(1, 4, "reading the first part");
    for (let line = 0; line < input.lines; line++) logger.info("line " + line);
    if (input.waits)
      await new Promise((resolve, reject) => {
        globalThis.goOn = () => {
          logger.info("went on");
          progress(3, 4, "almost there");
        };
        globalThis.endTalk = resolve;
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    return "said it";
  },
});

export const control = Tool.define({
  name: "control",
  description: "Lets it go on, or end.",
  parameters: { type: "object", properties: { what: { type: "string" } } },
  execute: async ({ input }) => {
    globalThis[input.what]?.();
    return "ok";
  },
});
`,
};

describeConsole(
  "the log of a call",
  ({ server, open }) => {
    it("shows the newest lines while a tool runs", async () => {
      const page = await open({ path: "/tools/talk" });
      await page.getByLabel("lines", { exact: true }).fill("30");
      await page.getByRole("radio", { name: "Yes" }).click();
      await page.getByRole("button", { name: "Run", exact: true }).click();
      const log = page.getByRole("list", { name: "Log" });
      await log.getByText("line 29").waitFor();
      const below = () => log.evaluate((list) => list.scrollHeight - list.scrollTop - list.clientHeight);
      expect(await log.evaluate((list) => list.scrollHeight > list.clientHeight)).toBe(true);
      await expect.poll(below).toBeLessThan(2);
      await server().call("control", { what: "endTalk" });
      await page.getByText("said it").waitFor();
    });

    it("grows on the page of a running call, with its progress, and is there when it has ended", async () => {
      const running = server().call("talk", { waits: true }, { callId: "talking" });
      await expect
        .poll(async () => (await server().ask<{ status?: string }>("/api/calls/talking")).status)
        .toBe("running");
      const page = await open({ path: "/calls/talking" });
      await page.getByText("reading the first part").waitFor();
      await page.getByRole("radio", { name: "Log" }).click();
      const log = page.getByRole("list", { name: "Log" });
      await log.getByText("printed 1").waitFor();
      await log.getByText("the disk is nearly full").waitFor();
      await server().call("control", { what: "goOn" });
      await log.getByText("went on").waitFor();
      await page.getByRole("radio", { name: "Output" }).click();
      await page.getByText("almost there").waitFor();
      expect(await page.getByRole("progressbar").getAttribute("value")).toBe("0.75");
      await server().call("control", { what: "endTalk" });
      await running;
      await page.getByText("said it").waitFor();
      await page.getByRole("radio", { name: "Log" }).click();
      expect(await log.getByRole("listitem").allTextContents()).toEqual([
        expect.stringMatching(/info\s*printed 1$/),
        expect.stringMatching(/warning\s*the disk is nearly full$/),
        expect.stringMatching(/progress\s*reading the first part \(1\/4\)$/),
        expect.stringMatching(/info\s*went on$/),
        expect.stringMatching(/progress\s*almost there \(3\/4\)$/),
      ]);
      await page.getByRole("radio", { name: "Timings" }).click();
      await page.getByRole("rowheader", { name: "After it ran" }).waitFor();
    });

    it("is folded when it is long, and shown whole on demand", async () => {
      const { callId } = await server().call("talk", { lines: 120 });
      const page = await open({ path: `/calls/${callId}?tab=log` });
      const log = page.getByRole("list", { name: "Log" });
      await log.getByText("line 119").waitFor();
      expect(await log.getByText("line 60", { exact: true }).count()).toBe(0);
      await log.getByRole("button", { name: "Show 83 more lines" }).click();
      await log.getByText("line 60", { exact: true }).waitFor();
    });

    it("stays with the result on the page of the tool", async () => {
      const page = await open({ path: "/tools/talk" });
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.getByText("said it").waitFor();
      await page.getByText("Output (3)").click();
      await page.getByText("reading the first part").waitFor();
    });
  },
  () => ({ files }),
);
