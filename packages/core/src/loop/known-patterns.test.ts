import { describe, expect, it } from "vitest";
import {
  around,
  edit,
  failingEdit,
  file,
  job,
  ladder,
  read,
  search,
  test,
  times,
} from "./loop-session.fixture.ts";

describe("the sixteen known patterns, as nudge/block/stop", () => {
  const sameCall = around([read("a.ts")], 8);
  const pingPong = around([read("a.ts"), search("x", "3 hits")], 10);
  const threeStep = around([read("a.ts"), failingEdit("a.ts"), test("2 failed")], 12);
  const sixStep = around(
    times(6, (index) => read(file(index))),
    24,
  );
  const reshuffled = times(8, (index) => failingEdit(`attempt ${index}`));
  const thrash = times(8, (index) => search(`word ${index}`, "no matches"));
  const testBetweenReads = times(12, (index) => (index % 2 === 0 ? test("2 failed") : read(file(index))));
  const anchor = times(10, (index) => (index % 2 === 0 ? read("plan.md") : read(file(index))));

  it.each([
    ["loop: the same call with the same result", sameCall, "2/3/5"],
    ["loop: two calls in turn", pingPong, "4/6/8"],
    ["loop: read, failing edit, failing test", threeStep, "6/8/11"],
    ["loop: six calls in turn", sixStep, "9/11/14"],
    ["loop: the same error for reshuffled arguments", reshuffled, "3/5/8"],
    ["loop: varied arguments, the same result", thrash, "4/6/0"],
    ["loop: a failing test between varying reads", testBetweenReads, "5/9/0"],
    [
      "loop: results that differ only in a timestamp",
      times(8, (index) => search("x", `3 hits at 2026-05-01T10:00:0${index}.120Z`)),
      "2/3/5",
    ],
    [
      "legitimate: a poll whose result changes",
      times(8, (index) => job(`${index * 10}% done`, false)),
      "0/0/0",
    ],
    ["legitimate: a declared poll that waits", [...times(6, () => job("running")), job("done")], "0/0/0"],
    [
      "legitimate: paging with identical arguments",
      times(20, (index) => read("next", `page ${index}`)),
      "0/0/0",
    ],
    [
      "legitimate: stepping a debugger",
      times(12, (index) => ({ tool: "debug", args: "next", result: `stopped in line ${index + 40}` })),
      "0/0/0",
    ],
    ["legitimate: editing twelve files that all answer ok", times(12, (index) => edit(file(index))), "0/0/0"],
    [
      "legitimate: edit and test while failures shrink",
      times(12, (index) => (index % 2 === 0 ? edit(`change ${index}`) : test(`${12 - index} failed`))),
      "0/0/0",
    ],
    [
      "legitimate: edit and test, the same failure three times, then green",
      [
        ...times(6, (index) => (index % 2 === 0 ? edit(`change ${index}`) : test("2 failed"))),
        edit("the right change"),
        test("all passed", false),
      ],
      "0/0/0",
    ],
    [
      "a quarter: a key pressed again, shortly acknowledged",
      around([{ tool: "press_key", args: "Tab", result: "Pressed Tab" }], 24),
      "8/12/20",
    ],
    [
      "loop: a page that stays the same whatever is clicked on it",
      times(14, (index) => ({
        tool: index % 2 === 0 ? "browser_navigate" : "browser_click",
        args: index % 2 === 0 ? "orders" : `button ${index}`,
        result: `Sign in\n${"- a link to another page of this site\n".repeat(8)}`,
      })),
      "5/9/13",
    ],
    ["legitimate: an anchor read again between probes, worth a nudge only", anchor, "7/0/0"],
  ])("%s", (_name, steps, expected) => {
    expect(ladder(steps)).toBe(expected);
  });
});
