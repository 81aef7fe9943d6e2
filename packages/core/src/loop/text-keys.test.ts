import { describe, expect, it } from "vitest";
import { cpuTime } from "../../../../scripts/cpu-time.ts";
import { hashNumber } from "../schema/hash.ts";
import { textKeys } from "./result-keys.ts";

const at = Date.UTC(2026, 6, 1, 12);
const reader = { name: "look", metadata: { readOnly: true } };
const resultKey = (text: string) => textKeys(text, at, false).resultKey;
const exactKey = (text: string, isError = false) => textKeys(text, at, isError).exactKey;

describe("resultKey", () => {
  it.each([
    ["ISO timestamps", "done at 2026-07-01T10:11:12.345Z", "done at 2026-07-02T09:08:07+02:00"],
    ["timestamps with a space", "2026-07-01 10:11:12 up", "2026-07-01 10:11:13,002 up"],
    ["times of day", "[10:11:12] up", "[23:59:59.999] up"],
    ["times of day in JSON", '{"out":"a\\n10:11:12 up"}', '{"out":"a\\n10:11:13 up"}'],
    ["timestamps in JSON", '{"out":"a\\n2026-07-01 10:11:12 up"}', '{"out":"a\\n2026-07-01 10:11:13 up"}'],
    ["epoch seconds", "saved, ts=1782900000", "saved, ts=1782900999"],
    ["epoch milliseconds", '{"ok":true,"ts":1782900000123}', '{"ok":true,"ts":1782900999456}'],
    ["epoch seconds with a fraction", '{"ok":true,"ts":1782900000.5}', '{"ok":true,"ts":1782900999.25}'],
    [
      "UUIDs",
      "job 0190163d-8694-739b-aea5-966c26f8ad91 made",
      "job 0190163d-9c11-7cc2-b1f0-11aa22bb33cc made",
    ],
    ["memory addresses", "<Object at 0x7f8a1c2d3e40>", "<Object at 0x7fb200c0ffee>"],
    ["durations", "2 failed, took 12ms", "2 failed, took 134 ms"],
    ["long durations", "finished in 1m 02.5s", "finished in 59.12s"],
    ["durations in words", "finished in 3 seconds", "finished in 1 second"],
    ["what a timeout took", "Timed out after 3001 ms", "Timed out after 3002 ms"],
    ["durations in brackets", "2 passing (12ms)", "2 passing (1.3s)"],
    ["durations of tests", "✓ a.test.ts (3 tests) 12ms\n✗ b 3s\n", "✓ a.test.ts (3 tests) 9ms\n✗ b 12s\n"],
    ["durations of tests in JSON", '{"out":"ok \\tpkg\\t0.1s\\n"}', '{"out":"ok \\tpkg\\t0.2s\\n"}'],
    ["durations in JSON", '{"ok":true,"duration": "12ms"}', '{"ok":true,"duration": "9 ms"}'],
    ["what a summary took", "Tests: 2 failed\nTime:        2.345 s", "Tests: 2 failed\nTime:        9.1 s"],
    ["elapsed time", "up, 12s elapsed", "up, 134s elapsed"],
    ["what parts took", "up (transform 45ms, tests 3ms)", "up (transform 9ms, tests 12ms)"],
    ["a clock", "Setup is running\nClock: 10:00:09", "Setup is running\nClock: 10:01:12"],
    ["request ids", "failed (request id: abc123)", "failed (request id: xyz789)"],
    ["request ids in JSON", '{"request_id":"a1","ok":false}', '{"request_id":"b2","ok":false}'],
    ["bare request ids", "failed, see req_011CSHoEeqs5C35K", "failed, see req_022DTIpFfrt6D46L"],
  ])("is the same for results that differ only in %s", (name, one, other) => {
    expect(resultKey(one)).toBe(resultKey(other));
    // Between different arguments a short answer keeps its times and ids, unless it says that it is an error.
    const isMeasured = /duration|took|elapsed/.test(name);
    expect(exactKey(one) === exactKey(other)).toBe(isMeasured || textKeys(one, at, false).saysError);
  });

  it.each([
    [
      "the line of a persistent shell",
      "/bin/bash: line 600: javac: command not found",
      "/bin/bash: line 615: javac: command not found",
    ],
    [
      "the line of an eval",
      "-bash: eval: line 12: syntax error near `)'",
      "-bash: eval: line 13: syntax error near `)'",
    ],
    [
      "the line of a here-document",
      "bash: line 9: warning: here-document at line 8 delimited",
      "bash: line 19: warning: here-document at line 18 delimited",
    ],
    ["the line of sh", "/bin/sh: 14: mvn: not found", "/bin/sh: 2: mvn: not found"],
    ["the line of zsh", "zsh:12: command not found: mvn", "zsh:3: command not found: mvn"],
    ["the line of ksh", "ksh[12]: mvn: not found", "ksh[140]: mvn: not found"],
    ["the line of a Chinese shell", "bash: 第 12 行： mvn：未找到命令", "bash: 第 615 行： mvn：未找到命令"],
    ["the line of a German shell", "bash: Zeile 12: mvn fehlt", "bash: Zeile 615: mvn fehlt"],
    ["the line of a French shell", "bash: ligne 12 : mvn introuvable", "bash: ligne 615 : mvn introuvable"],
    ["the line of a script from stdin", 'File "<stdin>", line 12, no x', 'File "<stdin>", line 15, no x'],
    ["references of a browser", "button [ref=s12e5] is disabled", "button [ref=s13e5] is disabled"],
    ["containers", `container ${"3f78".repeat(16)} is down`, `container ${"89e6".repeat(16)} is down`],
    ["rays", "denied, Ray ID: 8f14e45fceea167a", "denied, Ray ID: 45c48cce2e2d7fbd"],
    ["ids of services", "denied (Id: 3KX7Q2M9ABCD4EFG)", "denied (Id: 7QX2M3K9DCBA5GHT)"],
    ["objects of compilers", "/tmp/ccQ3x8Zz.o: no main here", "/tmp/cckLpAsd.o: no main here"],
    ["a dead process", "bash: line 7: 4242 Killed  ./a.out", "bash: line 9: 4250 Killed  ./a.out"],
    ["a job", "[1] 4242\nstarted the server", "[2] 4250\nstarted the server"],
    ["the end of a job", "[1]+  Done  make", "[3]+  Done  make"],
    ["cells of a notebook", "In [12]: x\nOut[12]: 5 apples", "In [3]: x\nOut[3]: 5 apples"],
    ["a traceback of a notebook", "Cell In[12], line 1\nNameError: x", "Cell In[13], line 1\nNameError: x"],
    ["inputs of IPython", "File <ipython-input-5-1a2b>, no x", "File <ipython-input-16-ffee>, no x"],
    ["inputs of Python", 'File "<python-input-5>", no x', 'File "<python-input-16>", no x'],
    ["files of a kernel", "in /tmp/ipykernel_42/17.py: no x", "in /tmp/ipykernel_7/99.py: no x"],
    ["prompts of irb", "irb(main):012:0> no method x", "irb(main):013:0> no method x"],
    ["prompts of pry", "[12] pry(main)> no method x", "[13] pry(main)> no method x"],
    ["prompts of iex", "iex(12)> no function x", "iex(2)> no function x"],
    ["prompts of Erlang", "12> no function x", "3> no function x"],
    ["prompts of Octave", "octave:12> no x here", "octave:3> no x here"],
    ["values of gdb", "$12 = five apples", "$3 = five apples"],
    ["values of Scala", "res12: String = apples and more", "res3: String = apples and more"],
    ["values of Swift", "$R12: five apples", "$R3: five apples"],
    ["labels of Maxima", "(%i12) no x (%o12) apples", "(%i3) no x (%o3) apples"],
    ["inputs of Node", "at REPL12:1 in apples", "at REPL3:1 in apples"],
    ["processes of valgrind", "==4242== Invalid read of apples", "==77== Invalid read of apples"],
    ["reports of Java", "see hs_err_pid4242.log for more", "see hs_err_pid77.log for more"],
    ["objects of Java", "java.lang.Object@1b6d3586 is no apple", "java.lang.Object@4554617c is no apple"],
    ["folders of pytest", "in /tmp/pytest-of-me/pytest-12/a no x", "in /tmp/pytest-of-me/pytest-3/a no x"],
    ["temporary names", "wrote /tmp/tmpab12cd34 for you", "wrote /tmp/tmpzz99_x1q for you"],
    ["turns that are left", "done. You have 12 turns left", "done. You have 9 turns left"],
    [
      "requests that are left",
      "200 OK\nx-ratelimit-remaining: 4999\nfine",
      "200 OK\nx-ratelimit-remaining: 4998\nfine",
    ],
    [
      "dates of HTTP",
      "200 OK\nDate: Wed, 01 Jul 2026 10:11:12 GMT\nfine",
      "200 OK\nDate: Wed, 01 Jul 2026 10:11:19 GMT\nfine",
    ],
    ["dates of syslog", "Jul  1 10:11:12 host up", "Jul  1 10:11:19 host up"],
    [
      "names of npm's logs",
      "see _logs/2026-07-01T10_11_12_345Z-debug-0.log",
      "see _logs/2026-07-01T10_12_12_345Z-debug-0.log",
    ],
    ["prompts that count", "[1024] $ make\nno such target", "[1025] $ make\nno such target"],
    ["makes within makes", "make[1]: no rule for x", "make[3]: no rule for x"],
    ["ages", "app is restarting (1) 5 seconds ago", "app is restarting (1) 41 seconds ago"],
    ["requests left", "X-RateLimit-Remaining: 90\nno such page", "X-RateLimit-Remaining: 89\nno such page"],
    ["speeds of downloads", "Downloaded a.jar (12 kB at 34 kB/s)", "Downloaded a.jar (12 kB at 3.1 kB/s)"],
  ])("leaves out the counters of prompts, shells and programs: %s", (_name, one, other) => {
    expect(resultKey(one)).toBe(resultKey(other));
  });

  it.each([
    ["lines of a script", "build.sh: line 40: no x here", "build.sh: line 41: no x here"],
    ["lines of a file", "a.ts:12: no x here", "a.ts:13: no x here"],
    ["members of a list", "list[12] is apples", "list[13] is apples"],
    ["a process that runs", "server started with pid 4242", "server started with pid 4250"],
    ["a job and nothing else", "[1] 4242", "[2] 4250"],
    ["seconds that are left", "12 seconds left", "9 seconds left"],
    ["users with an @", "mail bob@12345678 now", "mail bob@12345679 now"],
  ])("keeps what only looks like a counter: %s", (_name, one, other) => {
    expect(resultKey(one)).not.toBe(resultKey(other));
  });

  it.each([
    ["counts", "2 failed", "3 failed"],
    ["percentages", "10% done", "20% done"],
    ["pages", "page 4 of 9", "page 5 of 9"],
    ["line numbers", "stopped in line 40", "stopped in line 41"],
    ["dates", "free on 2026-07-01", "free on 2026-07-02"],
    ["words", "red", "blue"],
    ["versions", "1.2.3", "1.2.4"],
    ["commit hashes", "at 3f786850e387550f", "at 89e6c98d92887913"],
    ["chain addresses", `from 0x${"ab12".repeat(10)}`, `from 0x${"cd34".repeat(10)}`],
    ["prices", "1500 EUR", "1600 EUR"],
    ["whether there is a timestamp at all", "at 2026-07-01T10:11:12Z", "at noon"],
    ["times of another day", "free from 2026-07-04T10:00:00Z", "free from 2026-07-04T11:00:00Z"],
    ["times of another day with a space", "from 2026-07-04 10:00:00", "from 2026-07-04 11:00:00"],
    ["numbers that are epochs of another day", "balance: 1612345678", "balance: 1612345769"],
    ["large numbers", '{"downloaded":1500000000000}', '{"downloaded":1507777777000}'],
    ["a countdown", "running, 80 seconds left", "running, 70 seconds left"],
    ["a countdown of the clock", "00:01:20 left", "00:01:10 left"],
    ["when something will happen", "retry in 80s", "retry in 70s"],
    ["how long to wait", "busy, retry after 80 seconds", "busy, retry after 70 seconds"],
    ["the time that remains", "running, remaining time: 80s", "running, remaining time: 70s"],
    ["measured values", "p95: 80 ms, p99: 90 ms", "p95: 70 ms, p99: 90 ms"],
    ["settings", "timeout is 80s", "timeout is 70s"],
    ["a duration and nothing else", "took 80 ms", "took 70 ms"],
    ["a time and nothing else", "2026-07-01T10:11:12Z", "2026-07-01T10:11:13Z"],
    ["a labelled time and nothing else", '{"now":1782900000123}', '{"now":1782900999456}'],
    [
      "an id and nothing else",
      '{"id":"0190163d-8694-739b-aea5-966c26f8ad91"}',
      '{"id":"0190163d-9c11-7cc2-b1f0-11aa22bb33cc"}',
    ],
  ])("differs for results that differ in %s", (_name, one, other) => {
    expect(resultKey(one)).not.toBe(resultKey(other));
    expect(exactKey(one)).not.toBe(exactKey(other));
  });

  it("takes a time for data or not by the time of the call", () => {
    const key = (text: string, day: number) => textKeys(text, Date.UTC(2026, 6, day), false).resultKey;
    const [one, other] = ["up since 2026-07-04T10:00:00Z", "up since 2026-07-04T10:00:01Z"];
    expect(key(one, 4)).toBe(key(other, 4));
    expect(key(one, 9)).not.toBe(key(other, 9));
    expect(key(one, 4)).toBe(key(other, 4));
  });

  describe("of a very long text", () => {
    const lines = Array.from({ length: 10_000 }, (_, index) => `entry ${index} is fine`);
    const text = (head: string, middle: string, tail: string) =>
      [head, ...lines.slice(0, 5_000), middle, ...lines.slice(5_000), tail].join("\n");
    const key = resultKey(text("took 9ms", "middle", "at 10:11:12"));

    it("is the same when only the ends differ in what is masked, even in length", () => {
      expect(resultKey(text("took 1000ms", "middle", "at 10:11:12.999"))).toBe(key);
    });

    it("differs when one character differs at the start, in the middle or at the end", () => {
      expect(resultKey(text("took 9ms!", "middle", "at 10:11:12"))).not.toBe(key);
      expect(resultKey(text("took 9ms", "muddle", "at 10:11:12"))).not.toBe(key);
      expect(resultKey(text("took 9ms", "middle", "at 10:11:12!"))).not.toBe(key);
    });

    it("is the same for a log with a time in every line, and differs where its lines do", () => {
      const log = (second: number, word = "fine") =>
        Array.from(
          { length: 900 },
          (_, line) => `2026-07-01T10:${10 + (line % 50)}:${second}Z step ${line} is ${word}`,
        ).join("\n");
      expect(resultKey(log(11))).toBe(resultKey(log(12)));
      expect(resultKey(log(11))).not.toBe(resultKey(log(12, "late")));
      expect(exactKey(log(11))).not.toBe(exactKey(log(12)));
    });

    it.each([
      ["a text", "a line of text without numbers\n", false],
      ["an error without any word", "404 17 23 5 81 1200 99 31 7 66\n", true],
    ])("costs no more when it is longer: %s", (_name, line, isError) => {
      const cost = (length: number) => {
        const long = line.repeat(length / 31);
        return cpuTime(() => {
          for (let turn = 0; turn < 200; turn++) textKeys(long, at, isError);
        });
      };
      cost(20_000);
      expect(cost(2_000_000)).toBeLessThan(5 * cost(20_000) + 20);
    });

    it("takes time in proportion to its length when it is made to be slow", () => {
      for (const nasty of [
        "1".repeat(60_000),
        "1 ".repeat(30_000),
        "a-".repeat(30_000),
        "req_".repeat(15_000),
        "took 1".repeat(10_000),
        "1s ".repeat(20_000),
        `ok ${"1s".repeat(30_000)}`,
        "1s\n".repeat(20_000),
        `ok${" 1s\\n".repeat(12_000)}`,
        "abed in ".repeat(8_000),
        `${"a".repeat(60_000)}ed in 1`,
        "1h1m1".repeat(12_000),
      ]) {
        expect(cpuTime(() => resultKey(nasty))).toBeLessThan(200);
      }
    });
  });
});

describe("exactKey", () => {
  it.each([
    ["request ids", "refused (request id: abc123)", "refused (request id: xyz789)"],
    ["times of now", "refused at 2026-07-01T10:11:12Z", "refused at 2026-07-01T10:11:13Z"],
    ["how long it took", "timed out after 3001 ms", "timed out after 3002 ms"],
  ])("is the same for errors that differ only in %s", (_name, one, other) => {
    expect(exactKey(one, true)).toBe(exactKey(other, true));
  });

  it("differs for errors about ids that the calls named, and only for those", () => {
    const user = (id: string) => `0190163d-8694-739b-aea5-966c26f8ad${id}`;
    const key = (id: string, args?: unknown) =>
      textKeys(`no user ${user(id)} (request id: a${id})`, at, true, args).exactKey;
    expect(key("91", { id: user("91") })).not.toBe(key("92", { id: user("92") }));
    expect(key("91", { name: "bob" })).toBe(key("92", { name: "bob" }));
  });

  it("is the same for long results that differ only in what nobody asked for", () => {
    const page = (ray: string) => `<p>${"Nothing to see here. ".repeat(12)}</p> Ray ID: ${ray}`;
    expect(exactKey(page("8f14e45fceea167a"))).toBe(exactKey(page("45c48cce2e2d7fbd")));
    expect(exactKey("Ray ID: 8f14e45fceea167a is set")).not.toBe(exactKey("Ray ID: 45c48cce2e2d7fbd is set"));
  });

  it.each(["", "a", "saved", "saved.", "°C in Riga", "已保存", `${"on and ".repeat(28)}on`])(
    "is the hash of %j, which is read once for signs and hash",
    (text) => expect(exactKey(text)).toBe(hashNumber(text)),
  );

  it("is the resultKey of a text in which nothing is masked", () => {
    expect(exactKey("3 hits")).toBe(resultKey("3 hits"));
  });
});

describe("the keys of an error", () => {
  const key = (text: string, args?: unknown) => textKeys(text, at, true, args).exactKey;

  it.each([
    ["the number of a process", "[process 4711] Permission denied", "[process 52] Permission denied"],
    ["the time of a step", "#7 3.123 npm error code ENOLOCK", "#7 8.9 npm error code ENOLOCK"],
    ["a limit", "Command timed out after 30.1 seconds.", "Command timed out after 30.7 seconds."],
    ["a Chinese time", "2026年7月1日 10:00:01 错误：找不到文件", "2026年7月1日 10:09:44 错误：找不到文件"],
    ["a position", "At line:1 char:5 no such command", "At line:3 char:27 no such command"],
  ])("leave out %s", (_name, one, other) => {
    expect(key(one)).toBe(key(other));
  });

  it.each([
    ["how many failed", "3 failed, 9 passed", "2 failed, 10 passed"],
    ["how far it is", "not ready: 40 % done", "not ready: 60 % done"],
    ["a status", "request failed: HTTP 404", "request failed: HTTP 403"],
    ["a word", "cannot find name 'total'", "cannot find name 'sum'"],
  ])("keep %s", (_name, one, other) => {
    expect(key(one)).not.toBe(key(other));
  });

  it("keep a number that the arguments name, and leave out a statement that they hold", () => {
    const missing = (id: number) => key(`order ${id} is missing`, { id });
    expect(missing(17)).not.toBe(missing(18));
    const rerun = (code: string) => key("Cell In[5], line 3\nNameError: name 'df' is not defined", { code });
    expect(rerun("df.head(3)")).toBe(rerun("df.head(4)"));
    const failing = (sql: string) => key(`column "day" does not exist\nLINE 1: ${sql}\n   ^`, { sql });
    expect(failing("SELECT day FROM orders LIMIT 3")).toBe(failing("SELECT id, day FROM orders"));
  });

  it("leave out what they repeat of the arguments, but no word that the arguments only happen to have", () => {
    const missing = (selector: string, isError: boolean) =>
      textKeys(`No element found for selector: ${selector}`, at, isError, { selector }, reader).exactKey;
    expect(missing("#checkout", true)).toBe(missing(".go", true));
    expect(missing("#checkout", false)).toBe(missing(".go", false));
    const stopped = (input: string) => key("The program is not being run.", { input });
    expect(stopped("run")).toBe(stopped("start"));
    const denied = (user: string) => key(`${user}@db: Permission denied (publickey).`, { user });
    expect(denied("root")).toBe(denied("admin"));
    const hidden = (ref: string) => key(`waiting for aria-ref=${ref}: a layer intercepts the click`, { ref });
    expect(hidden("e41")).toBe(hidden("e42"));
  });

  it("keep the numbers of what a tool has read, such as the lines of a log", () => {
    const read = (text: string) => textKeys(text, at, false, undefined, reader).resultKey;
    expect(read("ERROR: job 12 failed")).not.toBe(read("ERROR: job 13 failed"));
  });
});

describe("the ages of a table", () => {
  it("are left out", () => {
    const pods = (age: string) =>
      `NAME   READY   STATUS             AGE\nweb-1   0/1     ImagePullBackOff   ${age}`;
    expect(resultKey(pods("95s"))).toBe(resultKey(pods("3m40s")));
    const events = (age: string) => `Type     Reason   Age    Message\nWarning  BackOff  ${age}  restarting`;
    expect(resultKey(events("95s"))).toBe(resultKey(events("3m40s")));
  });
});
