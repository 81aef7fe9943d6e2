import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";
import { offers, weather } from "./tool-files.ts";

const crashing = `import { Tool } from "@toolrack/core";
export const crash = Tool.define({
  name: "crash", description: "Crashes.", parameters: { type: "object", properties: {} },
  execute: async () => { const nothing: any = undefined; return nothing.length; },
});
`;

describeConsole(
  "schedules, prompts and what a tool declares",
  ({ server, open }) => {
    it("makes a schedule after showing its next five times, pauses, resumes and cancels it", async () => {
      const page = await open({ path: "/schedules" });
      await page.getByText("Nothing is scheduled.").waitFor();
      await page.getByRole("button", { name: "New schedule" }).click();
      await page.getByRole("combobox", { name: /^Tool/ }).fill("count_letters");
      await page.getByRole("textbox", { name: /^text/ }).fill("hello");
      await page.getByRole("radio", { name: "By cron" }).click();
      await page.getByLabel("Cron expression").fill("nonsense");
      await page.getByText(/is no cron expression/).waitFor();
      expect(await page.getByRole("button", { name: "Schedule it" }).isDisabled()).toBe(true);
      await page.getByLabel("Cron expression").fill("30 6 * * *");
      await expect
        .poll(() =>
          page
            .getByRole("dialog")
            .getByText(/6:30:00/)
            .count(),
        )
        .toBe(5);
      await page.getByRole("button", { name: "Schedule it" }).click();
      await page.getByRole("button", { name: "Pause count_letters" }).click();
      await page.getByRole("button", { name: "Resume count_letters" }).click();
      await page.getByText("Active", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Cancel count_letters" }).click();
      await page.getByRole("button", { name: "Cancel", exact: true }).click();
      await page.getByText("Nothing is scheduled.").waitFor();
      await page.getByLabel("Show ended ones").check();
      await page.getByText("Cancelled", { exact: true }).waitFor();
    });

    it("runs one soon, and shows the run", async () => {
      const body = { toolName: "count_letters", toolArgs: { text: "hello" }, delaySeconds: 0.2 };
      const { id } = await server().ask<{ id: string }>("/api/schedules", body);
      expect(id).toBeDefined();
      const page = await open({ path: "/schedules" });
      await page.getByLabel("Show ended ones").check();
      const row = page.getByRole("listitem").filter({ hasText: "Finished" });
      await row.getByRole("button", { expanded: false }).click();
      await row.getByText("Completed").waitFor({ state: "attached" });
      await row.getByRole("link", { name: /ago|now/ }).click();
      await page.getByText("Schedule", { exact: true }).first().waitFor();
    });

    it("tries a prompt, a resource and a template, and shows rows as a table to sort and filter", async () => {
      const page = await open({ path: "/prompts" });
      await page.getByRole("link", { name: "Greet somebody" }).click();
      await page.getByLabel("who").fill("Ada");
      await page.getByRole("button", { name: "Get the messages" }).click();
      await page.getByText("Hello Ada").waitFor();
      await page.getByRole("link", { name: /note:\/\/rows/ }).click();
      await page.getByRole("button", { name: "Read" }).click();
      const column = () => page.getByRole("cell").allInnerTexts();
      await page.getByRole("button", { name: "b", exact: true }).click();
      await page.getByRole("button", { name: "b", exact: true }).click();
      expect(await column()).toEqual(["10", "y", "2", "x"]);
      await page.getByLabel("Filter rows").fill("x");
      await expect.poll(column).toEqual(["2", "x"]);
      await page.getByText("1 of 2 rows").waitFor();
      await page.getByRole("link", { name: /many:/ }).click();
      await page.getByLabel("kind").fill("a b");
      await page.getByLabel("id").fill("7");
      await page.getByRole("button", { name: "Read" }).click();
      await page.getByText("a b number 7").waitFor();
    });

    it("shows what a single-file tool declares, and sets a value of its environment", async () => {
      const page = await open({ path: "/tools/weather-report?tab=about" });
      for (const text of [
        "1.4.0",
        "Ada",
        "NO_CITY",
        "Check the spelling.",
        "It needs no packages.",
        "not set",
      ])
        await page.getByText(text, { exact: true }).waitFor();
      await page.getByLabel("New value of UNIT").fill("kelvin");
      await page.getByRole("button", { name: "Set a value of UNIT" }).click();
      await page.getByText("kelvin", { exact: true }).waitFor();
      await page.getByLabel("New value of KEY").fill("a-secret-key");
      await page.getByRole("button", { name: "Set a value of KEY" }).click();
      await expect.poll(() => page.getByText("not set", { exact: true }).count()).toBe(0);
      expect(await page.getByText("a-secret-key").count()).toBe(0);
    });

    it("shows where in its author's file a tool crashed", async () => {
      const page = await open({ path: "/tools/crash" });
      await page.getByText("This tool takes no arguments.").waitFor();
      expect(await page.getByRole("button", { name: /Add/ }).count()).toBe(0);
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.getByText(/^tools\/crash\.ts:4$/).waitFor();
      await page.getByLabel("Stack of the error").getByText("TypeError").waitFor();
    });
  },
  () => ({
    files: { "tools/offers.ts": offers, "tools/weather.tool.cjs": weather, "tools/crash.ts": crashing },
  }),
);
