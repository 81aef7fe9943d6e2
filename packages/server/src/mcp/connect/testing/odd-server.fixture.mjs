// An MCP server of the old protocol, written by hand so that it can misbehave in every way that real ones do.
// Its behaviour is chosen by its arguments.
import { spawn } from "node:child_process";
import { closeSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const flags = new Set(process.argv.slice(2));
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
const waiting = new Map();
let asked = 0;
let pages = 0;
let grown = 0;

if (flags.has("die")) {
  console.error("first words");
  console.error("the database at 10.0.0.1 is gone");
  process.exit(3);
}
if (flags.has("noisy")) {
  console.log("Welcome to the odd server!");
  console.log("{not json");
}
if (flags.has("deaf")) process.on("SIGTERM", () => {});
if (flags.has("orphan")) {
  // Leaves the group, and takes nothing of the environment with it. The number tells it from others.
  spawn("setsid", ["env", "-i", "sleep", process.env.ODD_SLEEP], { stdio: "ignore" }).unref();
}
if (flags.has("flood")) {
  setInterval(() => send({ method: "notifications/tools/list_changed" }), 5).unref();
}
if (flags.has("daemon")) {
  // Leaves the group and ignores everything that asks.
  spawn(process.execPath, ["-e", "process.on('SIGTERM',()=>{}); setInterval(()=>{},1000)"], {
    detached: true,
    stdio: "ignore",
  }).unref();
}

const tool = (name, description, properties = {}) => ({
  name,
  description,
  inputSchema: { type: "object", properties },
});

function tools() {
  const file = process.env.ODD_TOOLS_FILE;
  if (file !== undefined) return JSON.parse(readFileSync(file, "utf8"));
  return [
    tool("echo", "Says it again.", { text: { type: "string" } }),
    tool("hang", "Never answers."),
    tool("crash", "Ends the server."),
    tool("environment", "All variables."),
    tool("progress", "Reports three times."),
    tool("reports", "Reports as often as it is asked to.", { times: { type: "integer" } }),
    tool("ask", "Asks the person.", { question: { type: "string" } }),
    tool("cancelled", "Which requests were cancelled."),
    tool("pid", "The process."),
    tool("fail", "Answers with an error."),
    tool("change", "Tells that the list changed."),
    tool("asklate", "Asks its question when somebody else calls `slow`."),
    tool("slow", "Is slow enough for the question of `asklate`."),
    tool("big", "Answers with so many bytes.", { bytes: { type: "number" }, last: { type: "boolean" } }),
    tool("length", "How long a text is.", { text: { type: "string" } }),
    tool("raw", "Answers with a line, in which ID stands for the id.", { line: { type: "string" } }),
    tool("interrogate", "Asks so many questions at once.", {
      count: { type: "number" },
      sameId: { type: "boolean" },
    }),
    tool("closeOutput", "Closes its output and lives on."),
    tool("closeInput", "Closes its input and lives on."),
  ];
}

/** What a file says is listed, by the method; an error instead of a result is one. */
function listed(method) {
  const file = process.env.ODD_LISTS_FILE;
  if (file === undefined) return undefined;
  const answer = JSON.parse(readFileSync(file, "utf8"))[method];
  // Each page has another next one.
  if (answer?.result?.nextCursor !== undefined) answer.result.nextCursor += ++pages;
  return answer;
}

let isLate = false;

async function elicit(message) {
  const question = `q${++asked}`;
  send({
    id: question,
    method: "elicitation/create",
    params: { message, requestedSchema: { type: "object", properties: { name: { type: "string" } } } },
  });
  return await new Promise((resolve) => waiting.set(question, resolve));
}

/** Asks everything before it reads an answer. Says how many were answered, and how often it was told what else. */
async function interrogate({ count, sameId = false }) {
  const said = {};
  let answers = 0;
  const all = new Promise((resolve) => {
    for (let index = 0; index < count; index++) {
      const id = sameId ? "same" : `many${index}`;
      waiting.set(id, ({ action, message }) => {
        said[action ?? message] = (said[action ?? message] ?? 0) + 1;
        if (++answers === count) resolve();
      });
      send({
        id,
        method: "elicitation/create",
        params: { message: "?", requestedSchema: { type: "object" } },
      });
    }
  });
  send({ method: "notifications/message", params: { level: "info", data: "everything was asked" } });
  await all;
  return text(JSON.stringify(said));
}

function liveOn() {
  setInterval(() => {}, 1000);
}

const cancelled = [];

async function call({ name, arguments: args = {}, _meta = {} }) {
  switch (name) {
    case "echo":
      return text(args.text);
    case "hang":
      return undefined;
    case "crash":
      console.error("about to crash");
      process.kill(process.pid, "SIGKILL");
      return undefined;
    case "environment":
      return text(JSON.stringify(process.env));
    case "progress":
      for (let step = 1; step <= 3; step++) {
        send({
          method: "notifications/progress",
          params: { progressToken: _meta.progressToken, progress: step, total: 3, message: `step ${step}` },
        });
      }
      return text("done");
    case "reports":
      for (let step = 1; step <= args.times; step++) {
        send({
          method: "notifications/progress",
          params: { progressToken: _meta.progressToken, progress: step },
        });
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return text("done");
    case "ask":
      return text(JSON.stringify(await elicit(args.question ?? "Your name?")));
    case "asklate":
      isLate = true;
      return undefined;
    case "slow":
      return text(isLate ? JSON.stringify(await elicit("What nobody else may read")) : "nobody was late");
    case "cancelled":
      return text(JSON.stringify(cancelled));
    case "pid":
      return text(process.pid);
    case "fail":
      throw Object.assign(new Error("the moon is in the wrong house"), { code: -32042 });
    case "length":
      return text(args.text.length);
    case "interrogate":
      return interrogate(args);
    case "closeOutput":
      liveOn();
      closeSync(1);
      return undefined;
    case "closeInput":
      liveOn();
      closeSync(0);
      return text("closed");
    case "change":
      send({ method: "notifications/tools/list_changed" });
      return text("told");
    default:
      return text(`called ${name}`);
  }
}

function answerBig(id, { bytes, last }) {
  const result = JSON.stringify(text("x".repeat(bytes)));
  const line = last
    ? `{"result":${result},"jsonrpc":"2.0","id":${id}}`
    : `{"jsonrpc":"2.0","id":${id},"result":${result}}`;
  process.stdout.write(`${line}\n`);
}

async function answer({ id, method, params = {} }) {
  const given = listed(method);
  if (given !== undefined) return send({ id, ...given });
  switch (method) {
    case "initialize":
      if (flags.has("silent")) return;
      return send({
        id,
        result: {
          protocolVersion: process.env.ODD_VERSION ?? params.protocolVersion,
          capabilities: flags.has("quiet")
            ? { tools: {} }
            : {
                tools: { listChanged: true },
                resources: { subscribe: true },
                ...(process.env.ODD_LISTS_FILE === undefined ? {} : { prompts: {} }),
              },
          serverInfo: { name: "odd", version: "1.0.0" },
          ...(process.env.ODD_WORDS_FILE && {
            instructions: readFileSync(process.env.ODD_WORDS_FILE, "utf8"),
          }),
        },
      });
    case "tools/list":
      if (flags.has("listless")) return console.error("asked for its tools");
      if (flags.has("growing")) {
        // Has one tool more when it was asked, tells so, and lets the other list wait meanwhile.
        send({ id, result: { tools: tools().slice(0, ++grown) } });
        return grown === 1 ? send({ method: "notifications/tools/list_changed" }) : undefined;
      }
      return send({ id, result: { tools: tools() } });
    case "resources/list":
      if (flags.has("growing")) await new Promise((resolve) => setTimeout(resolve, 500));
      return send({ id, result: { resources: [{ uri: "odd://clock", name: "clock" }] } });
    case "resources/templates/list":
      return send({ id, result: { resourceTemplates: [] } });
    case "resources/subscribe":
      send({ id, result: {} });
      return send({ method: "notifications/resources/updated", params: { uri: params.uri } });
    case "tools/call":
      if (params.name === "big") return answerBig(id, params.arguments);
      if (params.name === "raw")
        return process.stdout.write(`${params.arguments.line.replaceAll("ID", id)}\n`);
      try {
        const result = await call(params);
        if (result !== undefined) send({ id, result });
      } catch (error) {
        send({ id, error: { code: error.code ?? -32603, message: error.message } });
      }
      return;
    default:
      if (flags.has("touchy")) process.exit(1);
      if (!flags.has("silent")) {
        send({ id, error: { code: -32601, message: process.env.ODD_REFUSAL ?? "Method not found" } });
      }
  }
}

for await (const line of createInterface(process.stdin)) {
  const message = JSON.parse(line);
  if (message.method === undefined) {
    waiting.get(message.id)?.(message.result ?? message.error);
  } else if (message.id !== undefined) {
    void answer(message);
  } else if (message.method === "notifications/cancelled") {
    cancelled.push(message.params.requestId);
    if (flags.has("polite")) send({ id: message.params.requestId, error: { code: 0, message: "Cancelled" } });
  }
}
if (flags.has("deaf")) setInterval(() => {}, 1000);
