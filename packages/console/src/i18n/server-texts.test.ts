import { readFileSync } from "node:fs";
import { join } from "node:path";
import { toolErrorCodes } from "@toolrack/core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { language, messages, te } from "./i18n.ts";
import { callErrorText, fileFailureText, findingText, refusalText } from "./server-texts.ts";

const reference = join(import.meta.dirname, "../../../../docs/reference");

/** The codes in the tables of the page of the HTTP API, which a test keeps equal to the code. */
function refusalCodes(): string[] {
  const rows = readFileSync(join(reference, "http.md"), "utf8").matchAll(/^\| `([a-z]+(?:_[a-z]+)*)` \|/gm);
  return [...new Set(Array.from(rows, ([, code]) => code!))];
}

const details = {
  toolName: "tip",
  issues: [{ path: "bill", expected: "number", received: "string" }],
  limit: 1_500,
  missing: ["mail"],
};

beforeEach(() => {
  language.value = "zh-CN";
});
afterEach(() => {
  language.value = "en";
});

it("says every refusal of the server in Chinese", () => {
  const codes = refusalCodes();
  expect(codes.length).toBeGreaterThan(60);
  const own = (code: string) => te(`errors.codes.${code}`) || te(`errors.${code}`);
  expect(codes.filter((code) => !own(code) && !/\p{Script=Han}/u.test(refusalText(code) ?? ""))).toEqual([]);
});

it("says every error of a call in Chinese, but those in the words of the tool's author or of a person", () => {
  const codes = Object.keys(toolErrorCodes);
  const silent = codes.filter((code) => callErrorText({ code, message: "", details }) === undefined);
  expect(silent.sort()).toEqual(["approval_denied", "business_error", "execution_failed"]);
  expect(callErrorText({ code: "invalid_arguments", message: "", details })).toBe(
    "“tip”的参数不符合其模式，工具没有运行：\n- bill：应为 number，实际为 string",
  );
  expect(callErrorText({ code: "timed_out", message: "", details })).toContain("1.5 秒");
  expect(callErrorText({ code: "invalid_arguments", message: "not JSON" })).toBeUndefined();
});

it("says what lint finds in Chinese, with the values that only the server knows", () => {
  for (const code of Object.keys(messages.lint.codes)) {
    const { reason, remedy } = findingText({
      code,
      reason: "1,200 tokens.",
      remedy: "",
      parameters: ["a.b"],
      twin: "x",
    });
    expect(reason).toMatch(/\p{Script=Han}/u);
    expect(remedy).toMatch(/\p{Script=Han}/u);
  }
  expect(findingText({ code: "tokens_high", reason: "1,200 tokens.", remedy: "" }).reason).toContain("1,200");
  expect(findingText({ code: "near_twin", reason: "As x.", remedy: "", twin: "x" }).reason).toBe(
    "模型会把它与 `x` 混淆。",
  );
});

it("keeps what the compiler said of a file", () => {
  const failure = { code: "syntax", reason: 'Expected ";"', remedy: "Correct it." };
  expect(fileFailureText(failure)).toEqual({
    reason: '文件的语法有误：\nExpected ";"',
    remedy: "更正这一行的语法。",
  });
  expect(fileFailureText({ reason: "Other", remedy: "Else" })).toMatchObject({
    reason: "Other",
    remedy: "Else",
  });
});

it("leaves everything as the server said it in English", () => {
  language.value = "en";
  const finding = { code: "near_twin", reason: "A", remedy: "B" };
  expect(findingText(finding)).toBe(finding);
  expect(callErrorText({ code: "cancelled", message: "" })).toBeUndefined();
  expect(refusalText("not_found")).toBeUndefined();
});
