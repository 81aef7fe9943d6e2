// An MCP server of the version 2025-11-25 that works on its tools as tasks, written by hand. What it was asked for is
// told by the tool `asked`.
import { createInterface } from "node:readline";

const RELATED = "io.modelcontextprotocol/related-task";
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
const tasks = new Map();
const asked = [];
const waiting = new Map();

const tool = (name, taskSupport) => ({
  name,
  inputSchema: { type: "object" },
  ...(taskSupport === undefined ? {} : { execution: { taskSupport } }),
});
const tools = [
  tool("quick", "required"),
  tool("ask", "required"),
  tool("endless", "required"),
  tool("fail", "required"),
  tool("late", "required"),
  tool("at-once", "required"),
  tool("asked"),
];

function view({ id, status, message }) {
  return { taskId: id, status, ttl: null, pollInterval: 1, ...(message ? { statusMessage: message } : {}) };
}

function begin(name, token) {
  const task = { id: `task-${tasks.size + 1}`, name, token, status: "working", message: "step 0", looks: 0 };
  tasks.set(task.id, task);
  return task;
}

function look(task) {
  task.looks++;
  if (task.status === "working") task.message = `step ${task.looks}`;
  if (task.looks === 2 && task.name === "quick") {
    send({
      method: "notifications/progress",
      params: { progressToken: task.token, progress: 40, total: 50 },
    });
  }
  if (task.looks === 3 && task.name === "quick") task.status = "completed";
  if (task.looks === 2 && task.name === "ask") task.status = "input_required";
  if (task.looks === 2 && task.name === "fail") {
    task.status = "failed";
    task.message = "the archive is closed";
  }
  return view(task);
}

async function result(task) {
  const _meta = { [RELATED]: { taskId: task.id } };
  if (task.status === "failed") throw Object.assign(new Error("no result"), { code: -32603 });
  if (task.status === "input_required") {
    const id = `q-${task.id}`;
    const requestedSchema = { type: "object", properties: { name: { type: "string" } } };
    send({
      id,
      method: "elicitation/create",
      params: { message: `Who wants ${task.id}?`, requestedSchema, _meta },
    });
    const answer = await new Promise((resolve) => waiting.set(id, resolve));
    return { ...text(`${task.id} for ${answer?.content?.name}`), _meta };
  }
  return { ...text(`${task.name} is done`), _meta };
}

async function answer({ method, params = {} }) {
  const taskOf = () => tasks.get(params.taskId);
  if (method !== "tools/list") asked.push(method === "tools/call" ? `${method} ${params.name}` : method);
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-11-25",
        capabilities: { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } },
        serverInfo: { name: "tasks", version: "1.0.0" },
      };
    case "tools/list":
      return { tools };
    case "tools/call":
      if (params.name === "asked") return text(JSON.stringify(asked));
      if (params.task === undefined)
        throw Object.assign(new Error("requires task augmentation"), { code: -32601 });
      if (params.name === "at-once") return text("needed no task");
      if (params.name === "late") await new Promise((resolve) => setTimeout(resolve, 1_000));
      return { task: view(begin(params.name, params._meta?.progressToken)) };
    case "tasks/get":
      return look(taskOf());
    case "tasks/result":
      return await result(taskOf());
    case "tasks/cancel": {
      taskOf().status = "cancelled";
      // As one that noticed too late.
      const _meta = { [RELATED]: { taskId: params.taskId } };
      waiting.set(`late-${params.taskId}`, (answer) =>
        asked.push(answer === undefined ? "refused" : "answered"),
      );
      send({ id: `late-${params.taskId}`, method: "elicitation/create", params: { message: "?", _meta } });
      return view(taskOf());
    }
    default:
      throw Object.assign(new Error("Method not found"), { code: -32601 });
  }
}

for await (const line of createInterface(process.stdin)) {
  const message = JSON.parse(line);
  if (message.method === undefined) waiting.get(message.id)?.(message.result);
  else if (message.id !== undefined) {
    void answer(message).then(
      (given) => send({ id: message.id, result: given }),
      ({ code, message: said }) => send({ id: message.id, error: { code, message: said } }),
    );
  }
}
