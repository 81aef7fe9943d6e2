/** One call of a run, with what it gave. */
export interface CaseStep {
  readonly tool: string;
  readonly args?: Record<string, unknown>;
  readonly result: string;
  readonly isError?: boolean;
  readonly readOnly?: boolean;
  readonly poll?: boolean;
  /** Milliseconds inside the tool. */
  readonly took?: number;
  /** What the result says without noise, where the run knows it. */
  readonly says?: string;
  /** The model turn, where one turn makes several calls. */
  readonly round?: string;
}

/** A run to judge with. `set`: which half it belongs to. */
export interface LoopCase {
  readonly id: string;
  readonly kind: "stuck" | "legitimate";
  readonly set: "design" | "held";
  readonly steps: readonly CaseStep[];
}

/** Random numbers that are the same in every run of the script. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to `below`. */
  upTo(below: number): number {
    this.#state = (Math.imul(this.#state ^ (this.#state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) >>> 0;
    const mixed = Math.imul(this.#state ^ (this.#state >>> 13), 0x85ebca77) >>> 0;
    return Math.floor((mixed / 2 ** 32) * below);
  }

  of<Item>(items: readonly Item[]): Item {
    return items[this.upTo(items.length)]!;
  }

  between(low: number, high: number): number {
    return low + this.upTo(high - low + 1);
  }
}

const nouns =
  "parser reader lexer token writer cache store buffer codec mapper router index schema query".split(" ");
const times = <Item>(count: number, make: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, index) => make(index));
const lines = (count: number, make: (index: number) => string) => times(count, make).join("\n");
const clock = (second: number) => new Date(Date.UTC(2026, 4, 1, 10) + second * 1_000).toISOString();

const source = (name: string, from = 1) =>
  `[File: src/${name}.java (212 lines total)]\n${lines(20, (index) => `${from + index}: ${name} line ${index * 7 + from}`)}`;
const read = (name: string, result = source(name)): CaseStep => ({
  tool: "open",
  args: { path: `src/${name}.java` },
  result,
  readOnly: true,
});
const search = (term: string, result: string): CaseStep => ({
  tool: "search_dir",
  args: { term },
  result,
  readOnly: true,
});
const edit = (path: string, text: string, result = `File updated.\n${text}`): CaseStep => ({
  tool: "edit",
  args: { path, text },
  result,
});
const failed = (step: CaseStep): CaseStep => ({ ...step, isError: true });
const bash = (command: string, result: string, more: Partial<CaseStep> = {}): CaseStep => ({
  tool: "bash",
  args: { command },
  result,
  ...more,
});

/** Ordinary work, in which everything is new: what a run has done before it gets stuck. */
function work(dice: Dice): CaseStep[] {
  const begin = dice.upTo(nouns.length);
  return times(dice.between(2, 7), (index) => {
    const noun = `${nouns[(begin + index) % nouns.length]}${index}`;
    return dice.of([
      read(noun),
      search(noun, `Found ${index + 2} matches of ${noun}:\nsrc/${noun}.java (${index + 1})`),
      bash(
        `ls src/${noun}`,
        lines(index + 2, (at) => `${noun}${at}.java`),
        { readOnly: true },
      ),
      edit(`src/${noun}.java`, `int ${noun} = ${index};`),
    ]);
  });
}

type Make = (dice: Dice) => CaseStep[];

/** Runs that went in circles, as they were seen in public: each name says how. */
const stuck: Record<string, Make> = {
  "the same read": (dice) => times(dice.between(6, 12), () => read("parser")),
  "two reads in turn": (dice) =>
    times(dice.between(10, 16), (index) => read(index % 2 === 0 ? "lexer" : "token")),
  "read, failing edit, failing test": (dice) =>
    times(
      4 * 3 + dice.upTo(6),
      (index) =>
        [
          read("codec"),
          failed(
            edit(
              "src/codec.java",
              "return null;",
              "The old text was not found in src/codec.java. No changes made.",
            ),
          ),
          failed({
            tool: "run_tests",
            args: {},
            result: "Tests run: 12, Failures: 2\nTime elapsed: 0.2 s\nBUILD FAILURE",
          }),
        ][index % 3]!,
    ),
  "six reads in turn": (dice) => times(18 + dice.upTo(8), (index) => read(nouns[index % 6]!)),
  "the same error, reshuffled edits": (dice) =>
    times(dice.between(7, 11), (index) =>
      failed(
        edit(
          "src/cache.java",
          `if (x == ${index * 3}) { return ${index}; }`,
          "Your proposed edit has introduced new syntax error(s). The edit was not applied.\n- E999 unexpected indent",
        ),
      ),
    ),
  "no matches for any word": (dice) =>
    times(dice.between(8, 12), (index) => search(`${nouns[index % 14]} handler`, "No matches found.")),
  "a counting shell without a compiler": (dice) => {
    let line = dice.between(20, 900);
    return times(dice.between(9, 15), (index) => {
      line += dice.between(3, 20);
      return index % 4 === 3
        ? {
            tool: "ls",
            args: { text: "-la" },
            result: lines(5, (at) => `-rw-r--r-- 1 root root ${at} file${at}`),
            readOnly: true,
          }
        : {
            tool: "javac",
            args: { text: `-cp lib${index} Test${index}.java` },
            result: `/bin/bash: line ${line}: javac: command not found`,
            isError: true,
          };
    });
  },
  "known calls in any order": (dice) => {
    const known = times(7, (index) => read(nouns[index]!));
    return [...known, ...times(14, () => dice.of(known))];
  },
  "scrolling at the end": (dice) =>
    times(dice.between(8, 14), (index) => ({
      tool: index % 5 === 4 ? "scroll_up" : "scroll_down",
      args: {},
      result: index % 5 === 4 ? source("store", 90) : source("store", 190),
      readOnly: true,
    })),
  "results with a new time": (dice) =>
    times(dice.between(6, 9), (index) => ({
      tool: "get_incidents",
      args: { state: "open" },
      result: `{"at":"${clock(index * 7)}","open":[{"id":"INC-7","title":"queue is full","owner":null}]}`,
      readOnly: true,
    })),
  "JSON failures with new ids": (dice) =>
    times(dice.between(7, 11), (index) => ({
      tool: "crm_account",
      args: { account: `ACME-${index}`, region: dice.of(["eu", "us"]) },
      result: `{"success":false,"error":"token has no scope accounts.read","request_id":"req_${index}8f3a9c${index}"}`,
      isError: true,
    })),
  "a failing test between known files": () =>
    times(16, (index) =>
      index % 2 === 0
        ? bash("python -m pytest -q", `E   AssertionError: 3 != 4\n1 failed, 11 passed in 0.${10 + index}s`, {
            isError: true,
          })
        : bash(
            `cat src/${nouns[(index >> 1) % 4]}.py`,
            lines(12, (at) => `${nouns[(index >> 1) % 4]} ${at}`),
            { readOnly: true },
          ),
    ),
  "a notebook that counts its cells": (dice) => {
    let cell = dice.between(3, 40);
    return times(dice.between(6, 9), () => ({
      tool: "execute_cell",
      args: { code: "df.groupby('day').sum()" },
      result: `Cell In[${++cell}], line 1\nNameError: name 'df' is not defined`,
      isError: true,
    }));
  },
  "hot polling": (dice) =>
    times(dice.between(7, 12), () => ({
      tool: "deployment",
      args: { id: "d-12" },
      result: '{"state":"pending"}',
      readOnly: true,
    })),
  "denied everywhere": (dice) =>
    times(dice.between(8, 12), (index) => ({
      tool: "http_request",
      args: { method: "GET", url: `https://api.example.com/v1/users/${index}/orders` },
      result: "403 Forbidden: the key has no access to this resource",
      isError: true,
    })),
  "edit and take it back": (dice) =>
    times(
      8 * dice.between(2, 3),
      (index) =>
        [
          edit("src/index.ts", "const limit = 10;"),
          failed({ tool: "run_tests", args: {}, result: "1 failed: limit is 12" }),
          edit("src/index.ts", "const limit = 20;"),
          failed({ tool: "run_tests", args: {}, result: "1 failed: limit is 12" }),
        ][index % 4]!,
    ),
  "clicks without effect": (dice) =>
    times(2 * dice.between(5, 8), (index) =>
      index % 2 === 0
        ? { tool: "browser_click", args: { ref: "e12" }, result: "Clicked button Save" }
        : {
            tool: "browser_snapshot",
            args: {},
            result: "- dialog Save changes?\n  - button Save [ref=e12]\n  - button Cancel",
            readOnly: true,
          },
    ),
  "the same hits for every query": (dice) =>
    times(dice.between(9, 12), (index) => ({
      tool: "web_search",
      args: { query: `how to set proxy timeout ${nouns[index]} nginx` },
      result: lines(
        6,
        (at) => `${at + 1}. Nginx proxy timeouts explained, part ${at}: the directive and its default`,
      ),
      readOnly: true,
    })),
  "git again and again": (dice) => {
    const looks = [
      bash("git status", "On branch main\nnothing to commit, working tree clean", { readOnly: true }),
      bash("git diff", "", { readOnly: true }),
      bash("git log --oneline -3", "a1 one\nb2 two\nc3 three", { readOnly: true }),
    ];
    return times(dice.between(11, 15), () => dice.of(looks));
  },
  "statements that all fail": (dice) =>
    times(dice.between(7, 10), (index) => ({
      tool: "run_query",
      args: { sql: `SELECT ${nouns[index]} FROM orders WHERE day > ${index}` },
      result: 'ERROR: relation "orders" does not exist',
      isError: true,
    })),
  "a long log with a new time": (dice) =>
    times(dice.between(6, 8), (index) => ({
      tool: "tail_log",
      args: { file: "app.log" },
      result: `${clock(index * 3)} read\n${lines(700, (at) => `worker ${at % 7} handled job ${at} without trouble`)}\n(took ${index + 2} ms)`,
      readOnly: true,
    })),
  中文工具反复查询: (dice) =>
    times(dice.between(7, 10), () => ({
      tool: "get_order",
      args: { 订单: "A-17" },
      result: "未找到订单 A-17，请检查编号",
      readOnly: true,
    })),
  "a debugger without a program": (dice) =>
    times(dice.between(7, 10), (index) => ({
      tool: "gdb",
      args: { input: dice.of(["run", "start", "run arg", "continue"]) },
      result: "The program is not being run.",
      isError: index >= 0,
    })),
  "rereading after the same failed install": (dice) =>
    times(
      3 * dice.between(4, 5),
      (index) =>
        [
          bash(
            `pip install pkg${index}`,
            `ERROR: Could not find a version that satisfies the requirement\nERROR: No matching distribution found`,
            { isError: true },
          ),
          bash("cat requirements.txt", "flask==2.0\nrequests==2.31\nnumpy==1.26", { readOnly: true }),
          bash("pip --version", "pip 24.0 from /usr/lib/python3 (python 3.12)", { readOnly: true }),
        ][index % 3]!,
    ),
};

/** Runs that repeat themselves for a reason. */
const legitimate: Record<string, Make> = {
  "a poll whose answer changes": (dice) =>
    times(dice.between(8, 14), (index) => ({
      tool: "job_status",
      args: { id: 7 },
      result: `${index * 6}% done`,
      readOnly: true,
    })),
  "a declared poll": (dice) => [
    ...times(
      dice.between(5, 7),
      (): CaseStep => ({ tool: "job", args: { id: 7 }, result: "running", readOnly: true, poll: true }),
    ),
    { tool: "job", args: { id: 7 }, result: "done", readOnly: true, poll: true },
  ],
  "pages with the same arguments": (dice) =>
    times(dice.between(12, 22), (index) => ({
      tool: "next_page",
      args: {},
      result: `page ${index}: ${nouns[index % 14]}`,
      readOnly: true,
    })),
  "stepping through a program": (dice) =>
    times(dice.between(10, 16), (index) => ({
      tool: "debug",
      args: { command: "next" },
      result: `stopped in line ${40 + index}`,
    })),
  "many files edited, all answer ok": (dice) =>
    times(dice.between(10, 16), (index) => edit(`src/${nouns[index % 14]}${index}.java`, "import x;", "ok")),
  "failures that shrink": () =>
    times(12, (index) =>
      index % 2 === 0
        ? edit("src/a.java", `change ${index}`, "ok")
        : failed({ tool: "run_tests", args: {}, result: `${12 - index} failed` }),
    ),
  "the same failure three times, then green": () => [
    ...times(6, (index) =>
      index % 2 === 0
        ? edit("src/a.java", `attempt ${index}`, "ok")
        : failed({ tool: "run_tests", args: {}, result: "2 failed: testRound, testNegative" }),
    ),
    edit("src/a.java", "the right change", "ok"),
    { tool: "run_tests", args: {}, result: "all passed" },
  ],
  "an anchor between probes": (dice) =>
    times(dice.between(9, 11), (index) => (index % 2 === 0 ? read("plan") : read(`${nouns[index]}`))),
  "messages that all answer sent": (dice) =>
    times(dice.between(10, 14), (index) => ({
      tool: "send_message",
      args: { to: `${nouns[index % 14]}${index}@example.com` },
      result: '{"status":"sent"}',
    })),
  "waiting with a sleep": () => [
    ...times(
      12,
      (index): CaseStep =>
        index % 2 === 0
          ? { tool: "build_status", args: { id: 3 }, result: "still building", readOnly: true }
          : { tool: "sleep", args: { seconds: 15 }, result: "slept 15 s", took: 15_000 },
    ),
    { tool: "build_status", args: { id: 3 }, result: "built", readOnly: true },
  ],
  "a tool that waits itself": (dice) => [
    ...times(
      dice.between(4, 6),
      (): CaseStep => ({
        tool: "wait_for_deployment",
        args: { id: 3, timeout: 20 },
        result: "not ready yet",
        readOnly: true,
        took: 20_000,
      }),
    ),
    {
      tool: "wait_for_deployment",
      args: { id: 3, timeout: 20 },
      result: "ready",
      readOnly: true,
      took: 4_000,
    },
  ],
  "searches that sometimes find nothing": (dice) =>
    times(12, (index) =>
      search(
        nouns[index]!,
        dice.upTo(3) === 0
          ? `Found ${index} matches in src/${nouns[index]}`
          : index % 3 === 0
            ? `Found one match: ${nouns[index]}`
            : "No matches found.",
      ),
    ),
  "all checks again after a change": () => {
    const checks = times(
      6,
      (index): CaseStep => ({ tool: `check_${nouns[index]}`, args: {}, result: "passed", readOnly: true }),
    );
    return [
      ...checks,
      edit("src/a.java", "fix", "ok"),
      ...checks,
      edit("src/b.java", "fix", "ok"),
      ...checks,
    ];
  },
  "informed attempts at one error": () => [
    ...times(8, (index) =>
      index % 2 === 0
        ? bash(`mvn -q test -Dtest=T${index}`, "[ERROR] Could not resolve dependencies for project", {
            isError: true,
          })
        : read(`${nouns[index]}`),
    ),
    bash("mvn -q -o test -Dtest=T9", "Tests run: 9, Failures: 0"),
  ],
  "a shell without one program": () => [
    ...times(4, (index) =>
      bash(`mvn test -pl m${index}`, `bash: line ${12 + index}: mvn: command not found`, { isError: true }),
    ),
    bash("which java gradle", "/usr/bin/java\n/opt/gradle/bin/gradle", { readOnly: true }),
    bash("gradle test", "BUILD SUCCESSFUL in 12s"),
    bash("ls build", "reports\nclasses", { readOnly: true }),
  ],
  "ids of which most are unknown": (dice) => [
    ...times(
      6,
      (index): CaseStep => ({
        tool: "get_user",
        args: { id: 100 + index * dice.between(1, 9) },
        result: "User not found",
        isError: true,
      }),
    ),
    { tool: "get_user", args: { id: 999 }, result: '{"id":999,"name":"Ada"}', readOnly: true },
  ],
  "reference read between edits": (dice) =>
    times(dice.between(10, 14), (index) =>
      index % 2 === 0 ? read("spec") : edit(`src/${nouns[index]}.java`, `part ${index}`, "ok"),
    ),
  "several calls of one turn": (dice) =>
    times(dice.between(8, 12), (index) => ({ ...read(nouns[index]!), round: `r${Math.floor(index / 4)}` })),
  "a monitor between work": () =>
    times(14, (index) =>
      index % 3 === 0
        ? { tool: "server_status", args: {}, result: "healthy", readOnly: true }
        : edit(`conf/${index}.yaml`, `value: ${index}`, "ok"),
    ),
  "a countdown": () =>
    times(9, (index) => ({
      tool: "maintenance",
      args: {},
      result: `maintenance, ${90 - index * 10} seconds left`,
      readOnly: true,
    })),
  "values printed while stepping": () =>
    times(14, (index) => ({
      tool: "gdb",
      args: { input: index % 2 === 0 ? "next" : "print total" },
      result: index % 2 === 0 ? `${30 + index}\t  total += step;` : `$${index} = ${index * 10}`,
    })),
  "installs that all say done": (dice) =>
    times(dice.between(8, 12), (index) =>
      bash(
        `apt-get install -y lib${nouns[index]}`,
        "Your command ran successfully and did not produce any output.",
      ),
    ),
  "writes of a table, row by row": (dice) =>
    times(dice.between(10, 15), (index) => ({
      tool: "run_query",
      args: { sql: `INSERT INTO days VALUES (${index})` },
      result: "1 row affected",
    })),
  "another file after each failed one": () => [
    ...times(4, (index): CaseStep => failed(read(`gone${index}`, "File not found."))),
    read("mapper"),
    read("router"),
  ],
};

/** At least 60 runs: of every kind several, half of the kinds for designing and half to be held back. */
export function loopCases(variants = 3): LoopCase[] {
  const kinds = [
    ...Object.entries(stuck).map(([name, make]) => ({ name, make, kind: "stuck" as const })),
    ...Object.entries(legitimate).map(([name, make]) => ({ name, make, kind: "legitimate" as const })),
  ];
  return kinds.flatMap(({ name, make, kind }, index) =>
    times(variants, (variant) => {
      const dice = new Dice(index * 101 + variant * 7 + 1);
      const steps = [...work(dice), ...make(dice), ...(kind === "stuck" ? [] : work(dice))];
      return {
        id: `${name}, ${variant + 1}`,
        kind,
        set: index % 2 === 0 ? ("design" as const) : ("held" as const),
        steps,
      };
    }),
  );
}
