import { describe, expect, it } from "vitest";
import { Tool, ToolRegistry, type ToolResult } from "../index.ts";
import { saysError, seemsReadOnly, seemsToWait } from "./inference.ts";
import { ladder, type Step, session, times } from "./loop-session.fixture.ts";
import { emptyLoopState, recordCall } from "./loop-state.ts";

describe("a call seems to only read", () => {
  it.each<[string, unknown]>([
    ["get_user", {}],
    ["listIssues", {}],
    ["mcp_github_search_code", {}],
    ["open", { path: "a" }],
    ["scroll_down", {}],
    ["cat", { text: "a.txt" }],
    ["bash", { command: "cd src && ls -la | grep x" }],
    ["run_command", { cmd: "git diff HEAD~1" }],
    ["execute", { command: ["rg", "x"] }],
    ["shell", { command: "grep x a 2>/dev/null" }],
    ["http_request", { method: "GET", url: "/a" }],
    ["jira", { action: "list_projects" }],
    ["run_query", { sql: "select 1" }],
  ])("%s %j", (tool, args) => expect(seemsReadOnly(tool, args)).toBe(true));

  it.each<[string, unknown]>([
    ["get_or_create_user", {}],
    ["open_pull_request", {}],
    ["place_order", {}],
    ["cat", { text: "> a.txt" }],
    ["bash", { command: "ls > files.txt" }],
    ["bash", { command: "find . -delete" }],
    ["bash", { command: "git commit -am x" }],
    ["bash", { command: "sed -i s/a/b/ x" }],
    ["bash", { command: "python a.py" }],
    ["http_request", { method: "POST", url: "/a" }],
    ["jira", { action: "create_issue" }],
    ["search", { query: "DELETE FROM users" }],
  ])("but not %s %j", (tool, args) => expect(seemsReadOnly(tool, args)).toBe(false));

  it("is told by its arguments alone where the tool says that it changes something", () => {
    expect(seemsReadOnly("get_shell", { note: "x" }, true)).toBe(false);
    expect(seemsReadOnly("get_shell", { command: "ls" }, true)).toBe(true);
  });

  it("waits if its name says so", () => {
    expect(["wait_for_build", "pollJob", "sleep", "get_status"].map((tool) => seemsToWait(tool))).toEqual([
      true,
      true,
      true,
      false,
    ]);
  });
});

describe("a text says that it is an error", () => {
  it.each([
    "Error: no such row",
    "fatal: not a git repository",
    "aws_s3_bucket.logs: Creating...\n╷\n│ Error: creating the bucket: it is there already",
    "connect ECONNRESET 203.0.113.9:443",
    "429 Too Many Requests",
    "Rate limit exceeded. Try again in 2 seconds.",
    "Login incorrect",
    "The sheet is empty in this range",
    'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x',
    "/bin/bash: line 3: mvn: command not found",
    "ls: cannot access 'x': No such file or directory",
    '{"success":false,"message":"no"}',
    '{"error":{"code":7}}',
    "[The command completed with exit code 1.]",
    "Process exited with code 127",
    'Exception in thread "main" java.lang.NullPointerException',
    "[INFO] BUILD FAILURE",
    "npm ERR! code E404",
    "src/a.c:3:4: error: expected ;",
    "a\nsrc/a.c:3:4: error: expected ;",
    "Usage: edit START:END",
    "bash: 第 12 行： mvn：未找到命令",
    "bash: Zeile 3: mvn: Kommando nicht gefunden.",
    "ОШИБКА: отношение не существует",
    "No replacement was performed, old_str did not appear in a.ts.",
    "On branch main\nnothing to commit, working tree clean",
    "HTTP/1.1 403 Forbidden",
    '{"code":40012,"msg":"签名校验不通过"}',
    '{"code": "7", "message": "no quota"}',
    '{"errcode":40001,"errmsg":"x"}',
    "Clicked at (303, 412). The screen did not change.",
  ])("%s", (text) => expect(saysError(text)).toBe(true));

  it.each([
    "ok",
    "Created error_handler.ts",
    "12 passed, 0 errors",
    '{"error":null,"rows":[1]}',
    '{"ok":true,"errors":[]}',
    "error: old value\n[The command completed with exit code 0.]",
    "accepted order 17",
    "No errors found.",
    "Your command ran successfully and did not produce any output.",
    "not ready yet",
    "Saved. It is not published.",
    "The error rate is 0.1 %",
    '{"code":0,"msg":"ok","data":[1]}',
    '{"code":1,"message":"success"}',
    '{"code":86,"name":"China"}',
    '{"errno":0,"rows":[1]}',
  ])("but not %s", (text) => expect(saysError(text)).toBe(false));

  it("finds each word of a vain answer, in small and large letters, at the beginning and behind others", () => {
    const words =
      "no not nothing cannot can't couldn't didn't doesn't isn't wasn't unable fails failed failure denied refused rejected invalid missing unknown unauthorized forbidden nicht keine fehler ungültig introuvable erreur échec impossible pas não denegado 未找到 失敗 오류 ошибка";
    for (const word of words.split(" "))
      for (const text of [word, word.toUpperCase(), `user 7 (${word})`, `id_4-${word}, it is`, `“${word}`])
        expect(saysError(text), text).toBe(true);
  });
});

describe("what was inferred", () => {
  const shell = (args: string, result: string): Step => ({ tool: "javac", args, result });

  it("counts less than what a tool says, and the verdict names it", () => {
    const guessed = times(9, (index) => shell(`-cp a Test${index}`, "bash: javac: command not found"));
    expect(ladder(guessed.map((step) => ({ ...step, isError: true })))).toBe("3/5/8");
    expect(ladder(guessed)).toBe("4/7/0");
    const running = session();
    const last = running.all(guessed).at(-1);
    expect(last?.finished).toMatchObject({ signal: "same_error", inferred: ["error"] });
    expect(last?.finished.evidence).toContain("(inferred: the calls failed)");
  });

  it("is that a tool only reads, when identical calls gave equal results and others gave others", () => {
    const call = (args: string, result: number) => ({
      callId: args,
      tool: "ledger",
      argsKey: args,
      readOnly: false,
      isError: false,
      executed: true,
      at: 0,
      resultKey: result,
      resultLength: 200,
    });
    const state = [call("a", 1), call("b", 2), call("a", 1), call("c", 3)].reduce(
      (before, record) => recordCall(before, record),
      emptyLoopState(),
    );
    expect(state.entries.map(({ readOnly }) => readOnly)).toEqual([false, false, false, true]);
    const acknowledged = [call("a", 1), call("a", 1), call("b", 1)].reduce(
      (before, record) => recordCall(before, record),
      emptyLoopState(),
    );
    expect(acknowledged.entries.at(-1)?.readOnly).toBe(false);
  });
});

describe("answers that were all given before", () => {
  const look = (args: string, result: string, readOnly = true): Step => ({
    tool: "probe",
    args,
    result,
    readOnly,
  });
  const answer = (number: number) => `answer ${number}, which only some of the questions can have`;
  const known = times(3, (index) => look(`a${index}`, answer(index)));

  it("are a loop whatever the arguments, until something changes", () => {
    const again = times(12, (index) => look(`b${index}`, answer(index % 3)));
    expect(ladder([...known, ...again])).toBe("7/11/15");
    const running = session();
    const verdicts = running.all([...known, ...again]);
    expect(verdicts[6]?.finished).toMatchObject({ action: "nudge", signal: "known_answers" });
    running.make({ tool: "edit", args: "x", result: "ok" });
    expect(running.make(look("c", answer(1))).finished.action).toBe("none");
  });

  it("are remembered longer than the calls themselves", () => {
    const many = times(40, (index) => look(`a${index}`, answer(index)));
    const again = times(5, (index) => look(`b${index}`, answer(index)));
    expect(ladder([...many, ...again]).split("/")[0]).toBe("44");
  });
});

describe("one question after the other with the same answer", () => {
  const ask = (args: string, result: string): Step => ({ tool: "get_state", args, result, readOnly: true });

  it("is no loop where the answer is short and says something", () => {
    expect(ladder(times(20, (index) => ask(`service ${index}`, "healthy")))).toBe("0/0/0");
  });

  /** The number of the first call that is held, 0 for none. */
  const firstHeld = async (answer: string, inputs: readonly object[]) => {
    const registry = new ToolRegistry();
    const parameters = { type: "object" } as const;
    registry.register(
      Tool.define({
        name: "look",
        parameters,
        metadata: { readOnly: true },
        execute: async () => answer,
      }),
    );
    const results: ToolResult[] = [];
    for (const input of inputs) results.push(await registry.execute("look", input, { sessionID: "s" }));
    return results.findIndex(({ error }) => error?.code === "loop_blocked") + 1;
  };

  it("is none for days or pages without anything", async () => {
    const days = times(14, (index) => ({ date: `2026-05-${10 + index}` }));
    expect(await firstHeld("No events found.", days)).toBe(0);
    expect(await firstHeld("403 Forbidden: no access", days)).toBe(6);
  });

  it("is one later where one thing is looked for in several places", async () => {
    const places = "src tests scripts docs tools packages bench deploy examples".split(" ");
    const inputs = places.map((path) => ({ pattern: "legacyLedger", path }));
    expect(await firstHeld("No matches found", inputs)).toBe(8);
    expect(
      await firstHeld(
        "No matches found",
        places.map((path) => ({ path })),
      ),
    ).toBe(6);
  });

  it("is one where the answer is that there is nothing", () => {
    expect(ladder(times(9, (index) => ask(`word${index}`, "No matches found")))).toBe("4/6/9");
    expect(ladder(times(9, (index) => ask(`word${index}`, "[]")))).toBe("4/6/9");
    expect(ladder(times(9, (index) => ask(`词${index}`, "未找到相关结果。")))).toBe("4/6/9");
  });
});

describe("an error for untried arguments", () => {
  const failing = (tool: string, args: string, readOnly = false): Step => ({
    tool,
    args,
    result: "not there",
    isError: true,
    readOnly,
  });

  it("is not expected where the arguments have little to do with those that failed", () => {
    const tried = times(6, (index) => failing("bash", `mvn test module${index}`));
    expect(ladder([...tried, failing("bash", "ls src")])).toBe("3/5/0");
    const running = session();
    running.all(tried);
    expect(running.make(failing("bash", "mvn test module9")).next.action).toBe("block");
    expect(running.make(failing("bash", "ls src")).next.action).toBe("none");
  });

  it("is not expected of a call that reads another thing each time", () => {
    const tried = times(6, (index) => failing("open", `src/file${index}.java`, true));
    const running = session();
    running.all(tried);
    expect(running.make(failing("open", "src/other.java", true)).next.action).toBe("none");
  });
});

it("a shell that was silent about changes says nothing about what a look will show", () => {
  const silent = times(
    12,
    (index): Step => ({
      tool: "bash",
      args: `make ${index}`,
      more: { command: `mkdir a${index}` },
      result: "",
    }),
  );
  const look: Step = { tool: "bash", args: "look", more: { command: "git status --short" }, result: "A a.c" };
  expect(ladder([...silent, look])).toBe("0/0/0");
});

it("an error that several tools give does not depend on what they are asked", () => {
  const tools = ["list_tickets", "get_user", "search_files"];
  const expired = times(
    9,
    (index): Step => ({
      tool: tools[index % 3]!,
      args: `question ${index}`,
      result: "Sign in again to continue.",
      isError: true,
      readOnly: true,
    }),
  );
  expect(ladder(expired)).toBe("3/5/8");
});

it("a wait and the check that it is for are one repetition", () => {
  const pair: Step[] = [
    { tool: "wait", args: "15", result: "Waited.", took: 15_000 },
    { tool: "check_deploy", args: "d9", result: '{"phase":"rolling out","ready":"2/5"}', readOnly: true },
  ];
  expect(ladder(times(11, () => pair).flat()).split("/")[1]).toBe("0");
});
