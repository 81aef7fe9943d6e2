import { toolErrorCodes } from "@toolrack/core";
import { lintRules } from "../../config/index.ts";
import { isolationCodes } from "../../sandbox/index.ts";
import { httpErrorCodes, s } from "../wire/index.ts";

/** Where people look for a tool. */
const toolPlace = {
  source: s.choice(["files", "skills", "mcp", "builtin", "other"]),
  group: s.text("A folder, a skill, a server, or a category; empty for tools that stand alone."),
};

const toolSummary = {
  name: s.text("The name by which the tool is called."),
  displayName: s.text("The name people see."),
  "toolId?": s.text("What it is known by for good: the id of a skill's tool, or the name."),
  "skillName?": s.text("The skill that it belongs to."),
  "toolName?": s.text("Its name within the skill."),
  "title?": s.text(),
  "description?": s.text(),
  status: s.choice(
    ["ok", "stale", "disabled"],
    "`stale`: its file changed and no longer loads; the last good version serves.",
  ),
  "switched?": s.object(
    { enabled: s.boolean(), by: s.text(), at: s.moment() },
    "What an operator decided about it last, by whom and when.",
  ),
  "category?": s.text(),
  "tags?": s.texts(),
  "aliases?": s.texts(),
  dangerous: s.boolean("Needs a person's consent before it runs."),
  readOnly: s.boolean(),
  tokens: s.count("What its definition costs a model's context, estimated."),
  "permissions?": s.texts(),
  "origin?": s.text("Where it came from."),
  ...toolPlace,
  createdAt: s.moment(),
};

const isolation = s.object(
  {
    level: s.choice([0, 2, 3]),
    label: s.choice(["none", "reduced", "full"]),
    "reason?": s.text("Why the level is not 3, and what would change it."),
    "code?": s.choice(isolationCodes, "The reason, for programs with words of their own."),
    "details?": s.anyObject("The values in the reason."),
  },
  "How a tool of the sandbox is kept from doing harm here; absent for other tools.",
);

const madeBy = s.text(
  "By what the caller made the call: `console`, a program such as `curl/8.5.0`, an MCP client with its version, a chat session or a schedule.",
);
const callFacts = {
  callId: s.text(),
  "parentCallId?": s.text("The call that made this one."),
  "replayOf?": s.text("The call that this one repeats."),
  toolName: s.text(),
  ...s.partial({
    displayName: s.text(),
    sessionID: s.text(),
    messageID: s.text(),
    caller: s.text(),
    via: madeBy,
    expert: s.text("The expert as whom the caller made it."),
    tid: s.text(),
    depth: s.count(),
    timestamp: s.moment(),
    duration: s.amount("Milliseconds from arrival to end, `flags.waited` included."),
    runDuration: s.amount("The part of it that the tool itself ran, without waiting for a person."),
    parametersHash: s.text(),
    flags: s.ref("CallFlags"),
    error: s.ref("ToolError"),
    resultSize: s.count("Characters of the whole result."),
  }),
  status: s.choice(
    ["pending", "running", "completed", "error", "interrupted", "cancelled"],
    "`cancelled`: its caller gave it up, which is no failure. `interrupted`: the server died while it ran.",
  ),
};

const callLine = s.object({
  at: s.moment(),
  level: s.choice(["debug", "info", "warn", "error", "progress", "note"]),
  text: s.text("At most 2,000 characters."),
});

const callStage = s.object({
  name: s.choice(
    ["validate", "approve", "run", "after"],
    "`approve`: a person was waited for. `validate`: everything else before the tool ran: finding it, checking the arguments, permissions and loops. `run`: the tool itself. `after`: checking, masking and cutting its result.",
  ),
  duration: s.amount(),
});

/** The members of an approval rule that say which calls it applies to. */
const ruledTool = s.text("The tool's name; `*` stands for anything.");
const ruledArguments = {
  "input?": s.anyObject("Arguments that a call must have at least."),
  "exact?": s.boolean("The call has no other arguments than these."),
};

const loopSignals = [
  "repeat",
  "cycle",
  "same_error",
  "stagnation",
  "drought",
  "known_answers",
  "interleaved",
  "refused",
] as const;

/** The named schemas of tools, calls and approvals in `/openapi.json`. */
export const callSchemas = {
  Error: s.object(
    {
      error: s.object({
        code: s.choice(Object.keys(httpErrorCodes)),
        message: s.text("What happened, and what to do next."),
        details: s.anyObject(),
        type: s.text("The kind of error in OpenAI's words, or a model provider's own."),
        param: s.nullable(s.text("Which member of the request is wrong.")),
      }),
    },
    "Every error has this form.",
  ),
  ToolError: s.object({
    name: s.text(),
    code: s.choice(Object.keys(toolErrorCodes)),
    message: s.text(),
    "details?": s.anyObject(),
    recoverable: s.boolean(),
  }),
  ToolResult: s.object({
    content: s.text("The text a model reads."),
    type: s.choice(["text", "json", "error"]),
    "attachments?": s.list(s.ref("FilePart")),
    "structured?": s.anything(
      "The machine-readable value, when there is one. One of more than 1 Mi characters is left out: `metadata.truncated` says so, and `GET /api/calls/{callId}/result` has it as JSON, behind the text.",
    ),
    "blocks?": s.list(s.anyObject()),
    "metadata?": s.anyObject(),
    "error?": s.ref("ToolError"),
  }),
  FilePart: s.object(
    {
      type: s.constant("file"),
      mime: s.text(),
      url: s.text("A `data:` URL or an address."),
      "filename?": s.text(),
    },
    "A file or medium that came with a result.",
  ),
  CallFlags: s.object(
    {
      "repaired?": s.boolean("The arguments were not JSON and were mended."),
      "dropped?": s.texts("Unknown arguments that were dropped."),
      "edited?": s.boolean("A person changed the arguments before agreeing."),
      "truncated?": s.boolean("The model was given a part of the result only."),
      "outputMismatch?": s.text("How the result does not fit the output schema."),
      "overran?": s.object(
        { limit: s.amount() },
        "It ended after its limit of milliseconds, because it kept the process busy and could not be stopped.",
      ),
      "loop?": s.ref("LoopVerdict"),
      "line?": s.count("The line of the code that made the call."),
      "mocked?": s.boolean("A recorded answer stood in for the tool, which did not run."),
      "waited?": s.amount("Milliseconds for which it waited for a person, which is not the tool's time."),
    },
    "What was done to a call that a reader of its record should know.",
  ),
  LoopVerdict: s.object(
    {
      action: s.choice(["none", "nudge", "block", "stop"]),
      "signal?": s.choice(loopSignals),
      count: s.count("How often the loop was seen."),
      "period?": s.count("Length of the cycle."),
      "fingerprint?": s.text("The same for the same loop."),
      "evidence?": s.text("What repeats, how often, since which call."),
      "inferred?": s.list(
        s.choice(["readOnly", "error"]),
        "What it rests on that no tool has said: that calls only read, or that they failed.",
      ),
      "calls?": s.texts("The ids of the calls that count, oldest first."),
      "clears?": s.text("What would clear it."),
      "previousCallId?": s.text("The earlier call whose result still holds."),
    },
    "What loop detection said.",
  ),
  LoopRelease: s.object(
    { sessionID: s.text(), by: s.text(), at: s.moment() },
    "Who let a session go on, and when.",
  ),
  Loop: s.object(
    {
      sessionID: s.text(),
      callId: s.text("The latest call that showed it."),
      toolName: s.text(),
      displayName: s.text(),
      caller: s.text(),
      at: s.moment(),
      state: s.choice(
        ["told", "held", "stopped", "resumed"],
        "`told`: the calls ran, and the model was told. `held`: calls that would repeat it do not run. `stopped`: no call of the session runs. `resumed`: a person let the session go on.",
      ),
      verdict: s.ref("LoopVerdict"),
      "resumed?": s.object({ by: s.text(), at: s.moment() }),
    },
    "A session that went in circles.",
  ),
  SavedTest: s.object({
    file: s.text("Relative to the workspace."),
    line: s.count(),
    name: s.text(),
    tool: s.text(),
    "last?": s.ref("TestResult"),
  }),
  TestFileFailure: s.object(
    { file: s.text(), "line?": s.count(), reason: s.text(), remedy: s.text() },
    "A file of tests that cannot be read.",
  ),
  TestResult: s.object({
    file: s.text(),
    line: s.count(),
    name: s.text(),
    tool: s.text(),
    status: s.choice(["passed", "failed"]),
    problems: s.list(
      s.object({
        kind: s.text("What does not hold: `status`, `equals`, `calls` and the like."),
        message: s.text(),
        "differences?": s.list(
          s.object({
            path: s.text("A JSON pointer."),
            "expected?": s.anything("Absent: nothing was expected there."),
            "actual?": s.anything("Absent: there is nothing."),
          }),
        ),
      }),
    ),
    notes: s.texts(),
    duration: s.amount(),
    "at?": s.moment(),
  }),
  TestReport: s.object({
    mode: s.choice(["recorded", "strict", "off"]),
    results: s.list(s.ref("TestResult")),
    failures: s.list(s.ref("TestFileFailure")),
    passed: s.count(),
    failed: s.count(),
    duration: s.amount(),
  }),
  ToolSummary: s.object(toolSummary),
  Tool: s.object({
    ...toolSummary,
    "inputSchema?": s.anyObject(),
    "outputSchema?": s.anyObject(),
    metadata: s.anyObject(),
    "isolation?": isolation,
    "about?": s.object(
      {
        findings: s.list(s.ref("Finding")),
        "values?": s.list(
          s.object({ name: s.text(), "value?": s.text("Of settings alone.") }),
          "For admins: the settings and secrets of this tool, as `TOOL/NAME`, and those of all tools.",
        ),
        "data?": s.ref("DataFolder"),
      },
      "With `about`.",
    ),
  }),
  ToolPage: s.object({
    items: s.list(s.ref("ToolSummary")),
    total: s.count(),
    version: s.count("Grows with every change of the rack."),
    "next?": s.text("The `cursor` of the next page; absent on the last."),
    "groups?": s.list(
      s.object({ ...toolPlace, count: s.count() }),
      "With `groups`: how many tools of the whole list each group has.",
    ),
    "tags?": s.list(
      s.object({ name: s.text(), count: s.count() }),
      "With `groups`: the tags that most tools of the list have.",
    ),
  }),
  Finding: s.object(
    {
      code: s.choice(lintRules),
      tool: s.text(),
      reason: s.text(),
      remedy: s.text("What would settle it."),
      "parameters?": s.texts("The parameters that it is about: `filter.since`, `items[].id`."),
      "twin?": s.text("The tool with which models will confuse this one."),
    },
    "Something in a tool's definition that misleads models.",
  ),
  CallAnswer: s.object({
    callId: s.text(),
    toolName: s.text(),
    status: s.choice(["completed", "error"]),
    duration: s.amount(),
    result: s.ref("ToolResult"),
    recorded: s.boolean(
      "False when the record is not safe yet: the store cannot take it now, or refused it.",
    ),
    "replayOf?": s.text(),
    "trace?": s.ref("CallTrace"),
  }),
  CallTrace: s.object(
    {
      at: s.text("`FILE:LINE`, by the file's path in the workspace."),
      stack: s.text("What was thrown, and the frames of its stack that lie in the author's files."),
    },
    "Where in its author's files a tool failed. Only admins get it; absent when the stack has none of these files.",
  ),
  CallSummary: s.object({
    ...callFacts,
    "parametersPreview?": s.text(),
    "resultType?": s.choice(["text", "json", "error"]),
    "resultPreview?": s.text(),
  }),
  Call: s.object(
    {
      ...callFacts,
      parameters: s.anyObject("Secrets are masked."),
      "result?": s.ref("ToolResult"),
      "title?": s.text(),
      "metadata?": s.anyObject(),
      "startedAt?": s.moment(),
      "log?": s.list(
        callLine,
        "What the tool said while it ran, also while it still runs: its log, what it printed, and the messages of its progress. Secrets are masked. At most 200 lines or 32 KiB: of more, the first and the last, with a `note` between them. Absent when it said nothing.",
      ),
      "trace?": s.ref("CallTrace"),
      "stages?": s.list(callStage, "What its time went into, in order, once it has ended."),
    },
    "A call under way has no result yet.",
  ),
  CallPage: s.page(s.ref("CallSummary")),
  ResultPage: s.object({
    text: s.text(),
    offset: s.count(),
    "nextOffset?": s.count("Where the next page starts; absent on the last."),
    total: s.count("Characters in all."),
  }),
  Approval: s.object(
    {
      id: s.text(),
      callId: s.text(),
      "parentCallId?": s.text(),
      toolName: s.text(),
      "displayName?": s.text(),
      "sessionID?": s.text(),
      "caller?": s.text(),
      "via?": madeBy,
      message: s.text("The question."),
      input: s.anyObject("The arguments; secrets are masked."),
      "details?": s.anyObject(),
      "dangerous?": s.boolean(),
      "stage?": s.choice(
        ["before", "during"],
        "`before`: whether the call may run. `during`: something that the tool asks while it runs.",
      ),
      state: s.choice(
        ["pending", "allowed", "denied", "expired"],
        "`expired`: nobody answered in time, which is a denial.",
      ),
      createdAt: s.moment(),
      expiresAt: s.moment(),
      "decidedAt?": s.moment(),
      "decidedBy?": s.text("`toolrack` when the call was gone before anybody answered."),
      "reason?": s.text(),
      "arguments?": s.anyObject("The arguments as whoever agreed changed them."),
      "run?": s.object(
        {
          callId: s.text("The call of `toolrack_run`."),
          code: s.text(),
          "line?": s.count("The line that waits."),
          before: s.list(
            s.object({
              callId: s.text(),
              toolName: s.text(),
              "line?": s.count(),
              status: s.choice(["running", "completed", "error", "interrupted", "cancelled"]),
            }),
            "The calls that the code made earlier, oldest first; at most 100.",
          ),
        },
        "The code that makes the call, where code does.",
      ),
      "rule?": s.object(
        { tool: ruledTool, ...ruledArguments, "sessionID?": s.text() },
        "The rule that the answer became; absent when it was given for this call only.",
      ),
    },
    "A question that a call waits for, and the answer.",
  ),
  ApprovalPage: s.page(s.ref("Approval")),
  ApprovalRule: s.object({
    id: s.text(),
    tool: ruledTool,
    decision: s.choice(["allow", "ask", "deny"]),
    ...ruledArguments,
    "sessionID?": s.text(),
    "caller?": s.text("Only for calls of this caller."),
    createdBy: s.text(),
    createdAt: s.moment(),
  }),
  Schedule: s.object(
    {
      id: s.text(),
      toolName: s.text(),
      toolArgs: s.anyObject(),
      state: s.choice(["active", "paused", "finished", "cancelled"]),
      "time?": s.text("Once."),
      "interval?": s.text("Again and again, such as `every@5m`."),
      "cron?": s.text(),
      "timeZone?": s.text(),
      "nextRun?": s.text(),
      "nextRuns?": s.texts("The next times, at most five; while it is active."),
      "lastRun?": s.text(),
      "lastCallId?": s.text("The call that ran last."),
      runs: s.count(),
      missed: s.choice(["skip", "run_once"], "What becomes of times that pass while the server is down."),
    },
    "A tool that is to run later. One of `time`, `interval` and `cron` says when.",
  ),
  Prompt: s.object({
    name: s.text(),
    "title?": s.text(),
    "description?": s.text(),
    "arguments?": s.list(
      s.object({ name: s.text(), "description?": s.text(), "required?": s.boolean() }),
      "All values are texts.",
    ),
  }),
  PromptAnswer: s.object({
    "description?": s.text(),
    messages: s.list(
      s.object({ role: s.choice(["user", "assistant"]), content: s.anyObject("A content block of MCP.") }),
    ),
  }),
  Resource: s.object({
    "uri?": s.text("Of a resource that can be read as it is."),
    "uriTemplate?": s.text("Of many resources: what is in braces is to be filled in."),
    name: s.text(),
    "title?": s.text(),
    "description?": s.text(),
    "mimeType?": s.text(),
    "size?": s.count(),
  }),
  ResourceContent: s.object({
    uri: s.text(),
    "mimeType?": s.text(),
    "text?": s.text(),
    "blob?": s.text("Base64."),
  }),
  OpenAITool: s.object({ type: s.constant("function"), function: s.anyObject() }),
  OpenAIToolMessage: s.object({
    role: s.constant("tool"),
    tool_call_id: s.text(),
    name: s.text("Exactly as the model wrote it."),
    content: s.text(),
  }),
};
