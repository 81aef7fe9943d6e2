import { readFileSync } from "node:fs";
import { join } from "node:path";
import { toolErrorCodes } from "@toolrack/core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { language, messages, te } from "./i18n.ts";
import {
  callErrorText,
  fileFailureText,
  findingText,
  isolationText,
  refusalText,
  serverReasonText,
  skillReasonText,
} from "./server-texts.ts";

const reference = join(import.meta.dirname, "../../../../docs/reference");

/** The codes in the tables of the page of the HTTP API, which a test keeps equal to the code. */
function refusalCodes(): string[] {
  const rows = readFileSync(join(reference, "http.md"), "utf8").matchAll(/^\| `([a-z]+(?:_[a-z]+)*)` \|/gm);
  return [...new Set(Array.from(rows, ([, code]) => code!))];
}

/** The codes of a reason in the generated types, which a test keeps equal to the server's. `before`: what stands before them. */
function reasonCodes(before: string): string[] {
  const types = readFileSync(join(import.meta.dirname, "../api/generated-types.ts"), "utf8");
  const from = types.indexOf("ode?:", types.indexOf(before));
  return Array.from(types.slice(from, types.indexOf(";", from)).matchAll(/"(\w+)"/g), ([, code]) => code!);
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

it("says every reason of MCP servers, skill folders and the sandbox in Chinese", () => {
  const reason = "In English.";
  const told = {
    server: reasonCodes("interface McpServer ").map((reasonCode) => serverReasonText({ reason, reasonCode })),
    skill: reasonCodes("readonly folder: string").map((code) => skillReasonText({ reason, code })),
    isolation: reasonCodes("readonly isolation?").map((code) => isolationText({ reason, code })),
  };
  expect([told.server.length, told.skill.length, told.isolation.length]).toEqual([17, 10, 4]);
  const all = Object.values(told).flat();
  expect(
    all.filter((text) => text === reason || !/^\P{L}*(?:[\w.]+ )*\p{Script=Han}/u.test(text ?? "")),
  ).toEqual([]);
});

it("puts the values of a reason, and what others said, into the Chinese text", () => {
  const server = (reasonCode: string, reasonDetails: object) =>
    serverReasonText({ reason: "In English.", reasonCode, reasonDetails: { ...reasonDetails } });
  expect(server("program_ended", { exitCode: 3, wrote: "no key" })).toBe(
    "它的进程已结束，退出码 3。\n它的输出：no key",
  );
  expect(server("secret_missing", { place: "mcp.json: a.env.KEY", name: "KEY" })).toBe(
    "mcp.json: a.env.KEY 用到机密“KEY”，但它没有设置。设置它：toolrack secrets set KEY",
  );
  expect(server("a_new_code", {})).toBe("In English.");
  const broken = { line: 3, said: "Nested mappings", isServed: true };
  expect(skillReasonText({ reason: "", code: "front_matter_invalid", details: broken })).toBe(
    "SKILL.md 开头的元数据不是 YAML（第 3 行）：Nested mappings\n修正之前，继续使用最后一个可用的版本。",
  );
  const isolation = { reason: "In English.", code: "bubblewrap_missing" };
  expect(isolationText({ ...isolation, details: { isRoot: true } })).toMatch(
    /^没有安装.*级别 2 只靠.*的工具。$/,
  );
  expect(isolationText({ ...isolation, details: { isRoot: false } })).toContain("不是 root");
  expect(isolationText({ ...isolation, details: { isRoot: true, required: 3 } })).toMatch(
    /^配置要求隔离级别 3/,
  );
  expect(isolationText({ ...isolation, details: { level2: "it needs Linux." } })).toMatch(
    /^这里无法隔离。.*级别 2 也不可用：it needs Linux\.$/,
  );
  expect(isolationText({ reason: "In English." })).toBe("In English.");
});

it("leaves everything as the server said it in English", () => {
  language.value = "en";
  const finding = { code: "near_twin", reason: "A", remedy: "B" };
  expect(findingText(finding)).toBe(finding);
  expect(callErrorText({ code: "cancelled", message: "" })).toBeUndefined();
  expect(refusalText("not_found")).toBeUndefined();
  expect(serverReasonText({ reason: "It ended.", reasonCode: "program_ended" })).toBe("It ended.");
});
