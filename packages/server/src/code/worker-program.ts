import type { WorkerCall, WorkerProgram } from "../sandbox/index.ts";

/** What a worker is told of the run that it is for. */
export interface RunSource {
  /** The declaration of an async function `run`. */
  readonly js: string;
  /** The file name that stack traces show. */
  readonly filename: string;
  /** When the run began, in milliseconds since the epoch. The clock of the code starts here, also when it is run again. */
  readonly startedAt: number;
  /** Decides all random numbers of the run. */
  readonly seed: number;
}

/** How a worker answers. `value` is JSON; it is missing when the code returned nothing. */
export interface RunAnswer {
  readonly value?: unknown;
}

/** The text of the module that a worker evaluates for one run. */
export function workerModule(source: RunSource): string {
  // U+2028 and U+2029 are line ends in older JavaScript, so they are escaped.
  const text = JSON.stringify(source).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
  return `module.exports = (${createProgram})(${text});`;
}

/**
 * The program of a worker. Its text is sent into the sandbox, so it uses nothing but its argument and Node: no imports, no
 * names of this module. It is no guard: the code shares its realm and may change all of it. What the code may do is decided
 * by the host, which trusts no message.
 */
function createProgram(source: RunSource): WorkerProgram {
  const { compileFunction } = process.getBuiltinModule("node:vm");
  const { setTimeout: later, clearTimeout: forget, setInterval: every } = globalThis;
  /** Milliseconds without activity after which the host is told that the code only waits for answers. */
  const quietMs = 50;
  let quiet: NodeJS.Timeout | undefined;
  let open = 0;
  let timers = 0;

  return {
    methods: {
      async run(_params, call) {
        const clock = startClock();
        replaceTime(clock);
        replaceRandom();
        replaceTimers(clock, call);
        const names = { tools: toolsOf(clock, call), search: ask("search"), describe: ask("describe"), step };
        // Models may expect Node here. What there is of it leads nowhere, and is hidden so that they are told so.
        const hidden = { process: undefined, require: undefined, module: undefined, exports: undefined };
        const given = { ...names, ...hidden };
        const wrapped = `"use strict";${source.js}\nreturn run;`;
        const filename = source.filename;
        const offset = -'"use strict";'.length;
        const run = compileFunction(wrapped, Object.keys(given), { filename, columnOffset: offset })(
          ...Object.values(given),
        );
        const value = await run();
        return value === undefined ? {} : { value: toJson(value) };

        function ask(method: string) {
          return (...args: unknown[]) => request(clock, call, method, { args, place: placeOfCaller() });
        }

        async function step(name: unknown, work: unknown): Promise<unknown> {
          if (typeof work !== "function") throw new TypeError("step(name, fn) needs a function.");
          call.notify("step", { name: String(name) });
          return await work();
        }
      },
    },
  };

  /** `tools.namespace.name(args)`, and `tools.name(args)` by the tool's name on the rack. */
  function toolsOf(clock: Clock, call: WorkerCall): unknown {
    const made = new Map<string, unknown>();
    const callTool = (parts: readonly string[], args: unknown) =>
      request(clock, call, "call", { parts, args: args === undefined ? {} : args, place: placeOfCaller() });
    const members = (parts: readonly string[]): ProxyHandler<() => void> => ({
      get(_, name) {
        // A promise would be taken for one by `await`, and JSON asks for `toJSON`.
        if (typeof name === "symbol" || name === "then" || name === "toJSON") return undefined;
        const path = [...parts, name];
        const key = path.join("\0");
        const known = made.get(key);
        if (known !== undefined) return known;
        const member = (args?: unknown) => callTool(path, args);
        const found = path.length > 1 ? member : new Proxy(member, members(path));
        made.set(key, found);
        return found;
      },
      set: () => false,
    });
    return new Proxy(() => {}, members([]));
  }

  async function request(clock: Clock, call: WorkerCall, method: string, params: object): Promise<unknown> {
    open++;
    watchQuiet(call);
    try {
      // The host made this answer; it has the form that the host gives it.
      const { value, at } = (await call.request(method, params)) as { value?: unknown; at?: number };
      if (at !== undefined) clock.reach(at);
      return value;
    } catch (thrown) {
      throw toolError(thrown, params);
    } finally {
      open--;
      watchQuiet(call);
    }
  }

  /** The error of a tool as code sees it: with its code, and whether anything can be done about it. */
  function toolError(thrown: unknown, { place = "" }: { readonly place?: string }): Error {
    const { message, code, data } = Object(thrown);
    const { recoverable = false, tool } = Object(data);
    const error = Object.assign(new Error(String(message)), { name: "ToolError", code, recoverable, tool });
    // The answer came out of no function of the code, so the stack names the place of the call.
    error.stack = `ToolError: ${message}\n    at tools (${source.filename}:${place})`;
    return error;
  }

  /** The line and column of the compiled code that is being run, as `3:14`. Empty when the stack does not tell. */
  function placeOfCaller(): string {
    try {
      const stack = String(new Error().stack);
      const at = stack.indexOf(`${source.filename}:`);
      return at < 0 ? "" : (/^\d+:\d+/.exec(stack.slice(at + source.filename.length + 1))?.[0] ?? "");
    } catch {
      return "";
    }
  }

  /** Tells the host when the code has been waiting for answers for a while, and for nothing else. */
  function watchQuiet(call: WorkerCall): void {
    forget(quiet);
    quiet = open > 0 && timers === 0 ? later(() => call.notify("quiet", {}), quietMs) : undefined;
  }

  interface Clock {
    now(): number;
    /** Sets the clock forward to this time. */
    reach(time: number): void;
  }

  /**
   * A clock that shows the same times when the same code is run again: it moves with the answers of tools and with the
   * timers of the code, and a little with every look at it, so that a loop that waits for a time ends.
   */
  function startClock(): Clock {
    let time = source.startedAt;
    return {
      now() {
        time += 0.001;
        return Math.floor(time);
      },
      reach(later) {
        time = Math.max(time, later);
      },
    };
  }

  function replaceTime(clock: Clock): void {
    const Original = Date;
    const now = () => clock.now();
    const Replaced = new Proxy(Original, {
      construct: (target, args, self) => Reflect.construct(target, args.length > 0 ? args : [now()], self),
      apply: () => new Original(now()).toString(),
      get: (target, key) => (key === "now" ? now : Reflect.get(target, key)),
    });
    Original.prototype.constructor = Replaced;
    globalThis.Date = Replaced;
    whenUsed("performance", (given) => {
      // The member has this type in every Node.
      (given as Performance).now = () => now() - source.startedAt;
    });
  }

  /** Changes a global object when the code first uses it: Node needs milliseconds to load some, and most code uses none. */
  function whenUsed(name: "crypto" | "performance", change: (given: object) => void): void {
    const original = Object.getOwnPropertyDescriptor(globalThis, name);
    const get = () => {
      const value = original?.get === undefined ? original?.value : original.get.call(globalThis);
      change(value);
      Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
      return value;
    };
    Object.defineProperty(globalThis, name, { get, configurable: true });
  }

  /** Random numbers by `seed` (mulberry32), for all ways in which code usually asks for some. */
  function replaceRandom(): void {
    let state = source.seed | 0;
    const next = () => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
    };
    const byte = () => Math.floor(next() * 256);
    const uuid = () => {
      const hex = Array.from({ length: 16 }, (_, at) => {
        const value = at === 6 ? (byte() & 0x0f) | 0x40 : at === 8 ? (byte() & 0x3f) | 0x80 : byte();
        return value.toString(16).padStart(2, "0");
      }).join("");
      return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join(
        "-",
      );
    };
    const fill = (array: ArrayBufferView) => {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      for (let at = 0; at < bytes.length; at++) bytes[at] = byte();
      return array;
    };
    Math.random = next;
    whenUsed("crypto", (given) => {
      Object.defineProperty(given, "randomUUID", { value: uuid, configurable: true });
      Object.defineProperty(given, "getRandomValues", { value: fill, configurable: true });
    });
  }

  /** When a timer has run out, the clock shows at least the time for which it was set. */
  function replaceTimers(clock: Clock, call: WorkerCall): void {
    const closers = new WeakMap<object, () => void>();
    const start =
      (isRepeated: boolean) =>
      (run: unknown, wait: unknown = 0, ...args: unknown[]) => {
        const span = Math.max(isRepeated ? 1 : 0, Number(wait) || 0);
        let due = clock.now() + span;
        let isOpen = true;
        const close = () => {
          if (isOpen) timers--;
          isOpen = false;
          watchQuiet(call);
        };
        const act = () => {
          clock.reach(due);
          due += span;
          if (!isRepeated) close();
          if (typeof run === "function") run(...args);
        };
        timers++;
        watchQuiet(call);
        const timer = isRepeated ? every(act, span) : later(act, span);
        closers.set(timer, close);
        return timer;
      };
    const clear = (timer: unknown) => {
      if (typeof timer === "object" && timer !== null) closers.get(timer)?.();
      // Anything may be given to it, as to the original.
      forget(timer as NodeJS.Timeout);
    };
    Object.assign(globalThis, {
      ...{ setTimeout: start(false), setInterval: start(true) },
      ...{ clearTimeout: clear, clearInterval: clear },
    });
  }

  /** Makes JSON of what JSON would lose: maps, sets, big integers and errors. */
  function toJson(value: unknown): unknown {
    const text = JSON.stringify(value, (_, member: unknown) => {
      if (typeof member === "bigint") return String(member);
      if (member instanceof Map) return Object.fromEntries(member);
      if (member instanceof Set) return [...member];
      if (member instanceof Error) return { name: member.name, message: member.message };
      return member;
    });
    return text === undefined ? String(value) : JSON.parse(text);
  }
}
