import type { Socket } from "node:net";
import { type EnterOptions, enterSandbox } from "./egress.ts";
import { describeThrown, type ThrownData } from "./remote-error.ts";
import type { LogLine, WorkerCall, WorkerProgram } from "./sandbox-types.ts";
import type { HostMessage, WorkerMessage } from "./worker-channel.ts";

/**
 * The exit code of a worker that ended itself, because its tool sent more than the output limit allows
 * without a pause in which the host could have read and counted it.
 */
export const floodExitCode = 97;

/** The text for `node -e`: a call of `startWorker` below, with the functions that it needs. */
export function workerBootstrap(options: EnterOptions): string {
  return `(${startWorker})(${JSON.stringify(options)}, ${enterSandbox}, ${describeThrown}, ${floodExitCode})`;
}

/**
 * The program of a worker. Its text is sent into the sandbox, so it uses nothing but its arguments and Node: no
 * imports, no names of this module. So the sandbox needs no access to this file. Messages go over file descriptor 3;
 * stdout and stderr stay free for what the tool prints.
 */
function startWorker(
  options: EnterOptions,
  enter: typeof enterSandbox,
  describe: typeof describeThrown,
  floodCode: number,
): void {
  const { AsyncLocalStorage } = process.getBuiltinModule("node:async_hooks");
  const { Module } = process.getBuiltinModule("node:module");
  const { format } = process.getBuiltinModule("node:util");
  const net = process.getBuiltinModule("node:net");

  const channel: Socket = new net.Socket({ fd: 3, readable: true, writable: true });
  const currentCall = new AsyncLocalStorage<number>();
  /** The running calls by id. `sent` is the length of all messages of the call; the host counts it too. */
  const calls = new Map<number, { sent: number; controller?: AbortController }>();
  const outsideCalls = { sent: 0 };
  // Kept here before a tool can replace `process.exit`.
  const exit = process.exit.bind(process);
  const requests = new Map<number, PromiseWithResolvers<unknown>>();
  let program: WorkerProgram | undefined;
  let network = "";
  let outputBytes = Number.POSITIVE_INFINITY;
  let lastRefusal: string | undefined;
  let requestCount = 0;
  let outgoing = "";
  let incoming = "";

  channel.setEncoding("utf8");
  channel.on("data", receive);
  channel.on("error", () => process.exit(1));
  // The host is gone.
  channel.on("end", () => process.exit(0));
  process.on("unhandledRejection", (reason) => log("error", [`Unhandled rejection: ${format(reason)}`]));
  replaceConsole();
  blockOutputs();
  replaceFetch();
  refuseEngineFlags();
  enter(
    options,
    () => send({ type: "ready" }),
    (text) => {
      lastRefusal = text;
    },
  );

  function receive(chunk: string): void {
    incoming += chunk;
    if (!chunk.includes("\n")) return;
    const lines = incoming.split("\n");
    incoming = lines.pop() ?? "";
    // The cast is safe: only the host writes to this channel.
    for (const line of lines) take(JSON.parse(line) as HostMessage);
  }

  function take(message: HostMessage): void {
    if (message.type === "call") void call(message.id, message.method, message.params);
    else if (message.type === "answer") answer(message.id, message.result, message.error);
    else if (message.type === "abort") abort(message.id, message.reason);
    else if (message.type === "load") void load(message);
    else void end();
  }

  async function load(message: Extract<HostMessage, { type: "load" }>): Promise<void> {
    ({ network, outputBytes } = message);
    try {
      program = evaluate(message.code, message.path);
      await program.init?.(message.settings, { notify: (method, params) => notify(0, method, params) });
      send({ type: "loaded" });
    } catch (error) {
      send({ type: "loaded", error: describe(error) });
    }
  }

  function evaluate(code: string, path: string): WorkerProgram {
    // Node's module loader has these members, which its types lack.
    const loaded = new Module(path) as NodeModule & { _compile(code: string, path: string): void };
    const loader = Module as unknown as { _nodeModulePaths(directory: string): string[] }; // Node has this method, which its types leave out.
    loaded.filename = path;
    loaded.paths = loader._nodeModulePaths(path.slice(0, path.lastIndexOf("/")));
    loaded._compile(code, path);
    const { exports } = loaded;
    if (typeof exports?.methods !== "object" || exports.methods === null)
      throw new TypeError("The code exports no methods.");
    return exports;
  }

  async function call(id: number, method: string, params: unknown): Promise<void> {
    calls.set(id, { sent: 0 });
    let text: string;
    try {
      const methods = program?.methods ?? {};
      const run = Object.hasOwn(methods, method) ? methods[method] : undefined;
      if (typeof run !== "function") throw new TypeError(`There is no method "${method}".`);
      const result = await currentCall.run(id, () => run.call(methods, params, callContext(id)));
      text = JSON.stringify({ type: "result", id, result } satisfies WorkerMessage);
      if (text.length > outputBytes)
        throw new RangeError(`The answer has ${text.length} bytes; ${outputBytes} are allowed.`);
    } catch (error) {
      text = JSON.stringify({ type: "result", id, error: describe(error) } satisfies WorkerMessage);
    }
    calls.delete(id);
    outsideCalls.sent = 0;
    write(text);
  }

  function callContext(id: number): WorkerCall {
    return {
      get signal() {
        return controllerOf(id).signal;
      },
      notify: (method, params) => notify(id, method, params),
      request(method, params) {
        const request = Promise.withResolvers<unknown>();
        const number = ++requestCount;
        requests.set(number, request);
        sendCounted(id, { type: "request", id: number, call: id, method: String(method), params });
        return request.promise;
      },
    };
  }

  function answer(id: number, result: unknown, error: ThrownData | undefined): void {
    const request = requests.get(id);
    requests.delete(id);
    if (error === undefined) {
      request?.resolve(result);
      return;
    }
    const { name, message, code, data } = error;
    request?.reject(Object.assign(new Error(message), { name, code, data }));
  }

  /** The controller is created when it is first used, because most calls never read their signal. */
  function controllerOf(id: number): AbortController {
    const call = calls.get(id);
    if (call === undefined) return new AbortController();
    call.controller ??= new AbortController();
    return call.controller;
  }

  function abort(id: number, reason: string): void {
    controllerOf(id).abort(new DOMException(reason, "AbortError"));
    send({ type: "aborted", id });
  }

  async function end(): Promise<void> {
    try {
      await program?.cleanup?.();
    } catch (error) {
      log("error", [`cleanup failed: ${format(error)}`]);
    }
    flush();
    channel.end(() => process.exit(0));
  }

  function notify(id: number, method: string, params: unknown): void {
    try {
      sendCounted(id, { type: "notify", call: id, method: String(method), params });
    } catch {
      // A report that is not JSON is dropped: it must not fail the call.
    }
  }

  /**
   * Sends a message and adds its length to that of its call. Messages that are sent in a loop without a pause
   * pile up in memory, so the worker ends itself before memory runs out.
   */
  function sendCounted(id: number, message: WorkerMessage): void {
    const text = JSON.stringify(message);
    const sender = calls.get(id) ?? outsideCalls;
    sender.sent += text.length;
    if (sender.sent > outputBytes + 65_536) exit(floodCode);
    write(text);
  }

  function send(message: WorkerMessage): void {
    write(JSON.stringify(message));
  }

  /** Sends the lines of one turn of the event loop together, in one write. */
  function write(line: string): void {
    if (outgoing === "") queueMicrotask(flush);
    outgoing += `${line}\n`;
  }

  function flush(): void {
    const text = outgoing;
    outgoing = "";
    if (text !== "") channel.write(text);
  }

  function log(level: LogLine["level"], values: readonly unknown[]): void {
    notify(currentCall.getStore() ?? 0, "log", { level, text: format(...values) });
  }

  function replaceConsole(): void {
    console.debug = (...values) => log("debug", values);
    console.log = (...values) => log("info", values);
    console.info = console.log;
    console.warn = (...values) => log("warn", values);
    console.error = (...values) => log("error", values);
  }

  /** Makes writes to stdout and stderr wait for the host; otherwise output could pile up in memory. */
  function blockOutputs(): void {
    for (const name of ["stdout", "stderr"] as const) {
      const original = Object.getOwnPropertyDescriptor(process, name);
      if (original?.get === undefined || !original.configurable) continue;
      const get = () => {
        Object.defineProperty(process, name, original);
        // The handle of a pipe has `setBlocking`, which the types lack.
        const stream = process[name] as unknown as { _handle?: { setBlocking?(isBlocking: boolean): void } };
        stream._handle?.setBlocking?.(true);
        return stream;
      };
      Object.defineProperty(process, name, { ...original, get });
    }
  }

  /** Replaces Node's error "fetch failed" by an error that says which host was refused and why. */
  function replaceFetch(): void {
    const { fetch } = globalThis;
    globalThis.fetch = async (input, init) => {
      try {
        return await fetch(input, init);
      } catch (error) {
        if (!(error instanceof TypeError) || error.message !== "fetch failed") throw error;
        const { cause } = error;
        const isDenied = cause instanceof Error && "code" in cause && cause.code === "ERR_ACCESS_DENIED";
        if (lastRefusal === undefined && !isDenied) throw error;
        const url = typeof input === "object" && "url" in input ? input.url : String(input);
        throw new TypeError(`Could not fetch ${url}: ${lastRefusal ?? network}`, { cause: error });
      } finally {
        lastRefusal = undefined;
      }
    };
  }

  /** Makes `setFlagsFromString` throw: the engine's flags are frozen, and changing one would crash Node. */
  function refuseEngineFlags(): void {
    process.getBuiltinModule("node:v8").setFlagsFromString = () => {
      throw new Error("The flags of the engine cannot be changed in a sandbox.");
    };
    Module.syncBuiltinESMExports();
  }
}
