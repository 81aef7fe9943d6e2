import { randomUUID } from "node:crypto";
import type { ToolContext } from "@toolrack/core";
import { asRecord } from "../helpers/index.ts";
import type { ProgramResult, ProgramSpec, Sandbox } from "../sandbox/index.ts";
import { logPrinted } from "./checked-tool.ts";
import type { ScriptModule } from "./script-command.ts";
import { packageHint } from "./skill-packages.ts";

/** What a skill's module is asked for. */
export type ModuleRequest =
  /** Checks that the module can be parsed, without running it. */
  | { readonly method: "parse" }
  | { readonly method: "getTools" }
  | {
      readonly method: "execute";
      readonly toolName: string;
      readonly params: unknown;
      readonly context: object;
      /** The folder in the data folder in which the module works. It is made when it is missing. */
      readonly work: string;
    };

/** The module loaded, but lacks the function that it was asked for. */
export class MissingFunctionError extends Error {}

/**
 * Calls a function of a skill's module in the sandbox. Rejects with the error that the module threw, and with an error
 * that says so when the module wanted to reach a host that it may not reach: it may have taken that for an answer.
 */
export async function callModule(
  sandbox: Sandbox,
  spec: ProgramSpec,
  { language, file }: ScriptModule,
  request: ModuleRequest,
  signal: AbortSignal,
  context?: ToolContext,
  // Where the author has the files: the module may run from a copy.
  source = spec.directory,
): Promise<unknown> {
  const marker = `toolrack:${randomUUID()} `;
  const args = language === "python" ? ["-c", pythonProgram] : ["-e", nodeProgram];
  const result = await sandbox.run({ ...spec, args }, JSON.stringify({ ...request, marker, file }), signal);
  const lines = result.stdout.split("\n");
  logPrinted(context, "info", lines.filter((line) => !line.startsWith(marker)).join("\n"));
  logPrinted(context, "warn", result.stderr);
  const line = lines.findLast((candidate) => candidate.startsWith(marker));
  const answer = line === undefined ? undefined : parseJson(line.slice(marker.length));
  if (answer === undefined) {
    throw new Error(
      describeEnd(result, spec.label) ?? `${spec.label} ended before it answered.${tailOf(result)}`,
    );
  }
  const { value, error, isMissing, blocked } = asRecord(answer.value);
  const { message } = asRecord(error);
  const failure =
    error === undefined ? undefined : String(message || `${spec.label} failed without a message.`);
  if (isMissing === true) throw new MissingFunctionError(failure);
  const noticed = Array.isArray(blocked) ? blocked.map(String) : [];
  const reason = describeBlocked(spec, result, sandbox.level, noticed, failure);
  if (request.method === "execute" && reason !== undefined) throw new Error(reason);
  if (failure === undefined) return value;
  throw thrownBy(error, `${failure}${packageHint(failure, language, spec.label)}`, source);
}

/** The error of a module, with the skill's own files in its stack as they lie on this machine. */
function thrownBy(error: unknown, message: string, directory: string): Error {
  const { name, stack, place } = asRecord(error);
  const frames = String(stack ?? "").replaceAll(`${String(place || directory)}/`, `${directory}/`);
  return Object.assign(new Error(message), {
    ...(typeof name === "string" && { name }),
    stack: frames.startsWith("Traceback") ? fromTraceback(message, frames) : frames,
  });
}

/** A traceback of Python as a stack of JavaScript: the innermost frame first. */
function fromTraceback(message: string, traceback: string): string {
  const frames = Array.from(
    traceback.matchAll(/^ {2}File "(.+)", line (\d+), in (.+)$/gm),
    ([, path, line, name]) => `    at ${name} (${path}:${line})`,
  );
  return [message, ...frames.reverse()].join("\n");
}

/**
 * Why the answer of a program is not used that wanted to reach hosts and could not; undefined when it did not.
 * `noticed` are hosts that the program itself could not reach, `failure` is what it failed with.
 */
export function describeBlocked(
  { label, hosts }: ProgramSpec,
  { refusedHosts, isCutOff }: ProgramResult,
  level: Sandbox["level"],
  noticed: readonly string[],
  failure: string | undefined,
): string | undefined {
  const wanted = [...new Set([...noticed, ...refusedHosts])];
  if (wanted.length === 0 && !isCutOff) return undefined;
  const skill = label.slice(0, label.lastIndexOf("/"));
  const said = failure === undefined ? "" : ` It failed with: ${failure}`;
  const needed = wanted.length === 0 ? ["…"] : wanted.map((host) => host.replace(/:(?:80|443)$/, ""));
  const all = JSON.stringify([...new Set([...hosts, ...needed])]);
  const remedy =
    level === 2
      ? "This server isolates scripts at the reduced level 2, where they have no network. Install bubblewrap."
      : `Grant it in the config: sandbox: { grants: { "${skill}": { hosts: ${all} } } }. Granted hosts are reached by HTTP and HTTPS only.`;
  return `${label} wanted to reach ${wanted.join(", ") || "a host"}, and has no network access there, so what it answered is not used. ${remedy}${said}`;
}

/** Characters of a script's output that an error shows, from its end. */
const SHOWN_OUTPUT = 2_000;

/** Why a program did not end well; undefined when it did. */
export function describeEnd(result: ProgramResult, label: string, message?: string): string | undefined {
  const { exitCode, signal, truncated } = result;
  if (truncated) return `${label} printed more than it may, and was stopped.`;
  if (signal !== null) return `${label} was ended by ${signal}.${tailOf(result)}`;
  if (exitCode === 0) return undefined;
  return message ?? `${label} ended with exit code ${exitCode}.${tailOf(result)}`;
}

/** The end of what a program printed, as the last sentence of an error. */
export function tailOf({ stdout, stderr }: ProgramResult): string {
  const [name, text] = stderr.trim() === "" ? ["printed", stdout.trim()] : ["said", stderr.trim()];
  if (text === "") return "";
  return ` It ${name}: ${text.length > SHOWN_OUTPUT ? `…${text.slice(-SHOWN_OUTPUT)}` : text}`;
}

export function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/**
 * Runs inside the sandbox to call a function of a skill's module. The request comes on standard input as JSON:
 * `{marker, method, file, toolName, params, context, work}`. The answer is the line that begins with the marker, which
 * the module cannot know, so that other output does not matter. `blocked` in the answer names the hosts that could not
 * be reached: a module may take a failed connection for an answer such as "the port is closed".
 */
const nodeProgram = `
const { mkdirSync, readFileSync } = require("node:fs");
const Module = require("node:module");
const { dirname, join, resolve } = require("node:path");
const { pathToFileURL } = require("node:url");
const { errorMonitor } = require("node:events");
const { Script } = require("node:vm");
const net = require("node:net");
const dns = require("node:dns");
// These two read the proxy variables when they are loaded. Other clients must not read them: some would send https
// requests to the proxy unencrypted.
require("node:http");
require("node:https");
for (const name of Object.keys(process.env)) if (/proxy/i.test(name)) delete process.env[name];

const blocked = new Set();
const unreachable = /^(?:ENETUNREACH|EHOSTUNREACH|ENETDOWN|ECONNREFUSED|ENOTFOUND|EAI_\\w+|EACCES|EPERM|ERR_ACCESS_DENIED)$/;
const { connect } = net.Socket.prototype;
net.Socket.prototype.connect = function (...args) {
  const [first, second] = Array.isArray(args[0]) ? args[0] : args;
  const { host = "localhost", port, path } =
    typeof first === "object" && first !== null
      ? first
      : { host: typeof second === "string" ? second : undefined, port: first };
  const note = (error) => {
    if (path === undefined && unreachable.test(error?.code ?? "")) blocked.add(host + ":" + port);
  };
  this.on(errorMonitor, note);
  try {
    return connect.apply(this, args);
  } catch (error) {
    note(error);
    throw error;
  }
};
for (const [owner, givesPromises] of [[dns, false], [dns.promises, true]]) {
  for (const name of Object.keys(owner).filter((key) => /^(?:lookup$|resolve|reverse$)/.test(key))) {
    const original = owner[name];
    const watched = function (host, ...rest) {
      const note = (error) => void (error && blocked.add(String(host)));
      if (givesPromises) {
        const answer = original.call(this, host, ...rest);
        answer.catch(note);
        return answer;
      }
      const done = rest.pop();
      return original.call(this, host, ...rest, (error, ...found) => {
        note(error);
        done(error, ...found);
      });
    };
    owner[name] = Object.defineProperties(watched, Object.getOwnPropertyDescriptors(original));
  }
}
Module.syncBuiltinESMExports();

// What require does by itself, import does by this: it looks for packages in NODE_PATH too.
if (process.env.NODE_PATH) {
  const parentURL = pathToFileURL(join(dirname(process.env.NODE_PATH), "package.json")).href;
  Module.registerHooks({
    resolve(name, context, next) {
      try {
        return next(name, context);
      } catch (error) {
        if (/^(?:[./#]|[a-z]+:)/.test(name)) throw error;
        try {
          return next(name, { ...context, parentURL });
        } catch {
          throw error;
        }
      }
    },
  });
}

// By what it says itself: a package.json somewhere above the skill must not decide how it is read.
const isCommon = (path, source) =>
  path.endsWith(".js") && /\\bexports\\b/.test(source) && !/^\\s*(?:import|export)\\b/m.test(source);
async function load(path) {
  const source = readFileSync(path, "utf8");
  if (!isCommon(path, source)) return import(pathToFileURL(path).href);
  const module = new Module(path);
  module.filename = path;
  module.paths = Module._nodeModulePaths(dirname(path));
  module._compile(source, path);
  return module.exports;
}
const chunks = [];
process.stdin.on("data", (chunk) => chunks.push(chunk)).on("end", async () => {
  const request = JSON.parse(Buffer.concat(chunks).toString());
  const { marker, method, file, toolName, params, context, work } = request;
  const plain = (_key, value) => (typeof value === "bigint" ? String(value) : value);
  const answer = (message) =>
    process.stdout.write("\\n" + marker + JSON.stringify({ ...message, blocked: [...blocked] }, plain) + "\\n", () =>
      process.exit(0),
    );
  const place = process.cwd();
  try {
    const path = resolve(file);
    process.env.SKILL_PATH = place;
    Object.assign(globalThis, { __ADMIN__: false, __SKILL_CREATOR__: false });
    if (work !== undefined) {
      // The home is the data folder. It is scratch space where the data folder cannot be reached.
      const home = process.env.HOME;
      Object.assign(process.env, { DATA_BASE_PATH: home, PROJECT_ROOT: home });
      mkdirSync(join(home, work), { recursive: true });
      process.chdir(join(home, work));
    }
    if (method === "parse") {
      const source = readFileSync(path, "utf8");
      if (isCommon(path, source)) new Script(Module.wrap(source), { filename: file });
      else Module.stripTypeScriptTypes(source);
      return answer({});
    }
    const loaded = await load(path);
    const candidates = [loaded, loaded.default, loaded.default?.default];
    const owner = candidates.find((one) => typeof one?.[method] === "function");
    if (owner === undefined) {
      const message = file + " exports no function " + method + ".";
      return answer({ isMissing: true, error: { message } });
    }
    const value = await (method === "getTools" ? owner.getTools() : owner.execute(toolName, params, context));
    answer({ value: value === undefined ? null : value });
  } catch (error) {
    const { name, message = error, stack = "" } = error ?? {};
    answer({ error: { name, message: String(message), stack: String(stack), place } });
  }
});`;

const pythonProgram = `
import asyncio, importlib.util, inspect, json, math, os, socket, sys, traceback
request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
blocked = set()
def watch(owner, name, described):
    original = getattr(owner, name)
    def watched(*args, **options):
        try:
            result = original(*args, **options)
        except BlockingIOError:
            raise
        except OSError:
            blocked.add(described(args))
            raise
        if name == "connect_ex" and result not in (0, 115):
            blocked.add(described(args))
        return result
    setattr(owner, name, watched)
def peer(args):
    return ":".join(map(str, args[1][:2])) if isinstance(args[1], tuple) else str(args[1])
watch(socket.socket, "connect", peer)
watch(socket.socket, "connect_ex", peer)
watch(socket, "getaddrinfo", lambda args: str(args[0]))
watch(socket, "gethostbyname", lambda args: str(args[0]))
def plain(value):
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, (list, tuple)) else value
def answer(message):
    message["blocked"] = sorted(blocked)
    try:
        text = json.dumps(message, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        # JavaScript writes null too for what JSON has no word for.
        text = json.dumps(plain(json.loads(json.dumps(message, default=str))), ensure_ascii=False)
    out.write("\\n" + request["marker"] + text + "\\n")
    out.flush()
    os._exit(0)
place = os.getcwd()
try:
    path = os.path.abspath(request["file"])
    os.environ["SKILL_PATH"] = place
    sys.path.insert(0, os.path.dirname(path))
    sys.dont_write_bytecode = True
    if "work" in request:
        work = os.path.join(os.environ["HOME"], request["work"])
        os.makedirs(work, exist_ok=True)
        os.chdir(work)
    if request["method"] == "parse":
        compile(open(path, "rb").read(), request["file"], "exec")
        answer({})
    spec = importlib.util.spec_from_file_location("skill", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    snake = {"getTools": "get_tools"}.get(request["method"], request["method"])
    function = getattr(module, request["method"], None) or getattr(module, snake, None)
    if function is None:
        message = request["file"] + " has no function " + request["method"] + "."
        answer({"isMissing": True, "error": {"message": message}})
    if request["method"] == "getTools":
        value = function()
    else:
        value = function(request["toolName"], request["params"], request["context"])
    if inspect.isawaitable(value):
        async def wait(): return await value
        value = asyncio.run(wait())
    answer({"value": value})
except SystemExit:
    error = sys.exc_info()[1]
    message = request["file"] + " ended with sys.exit(" + repr(error.code) + ") instead of returning a value."
    answer({"error": {"message": message, "stack": traceback.format_exc()}})
except BaseException:
    error = sys.exc_info()[1]
    name = type(error).__name__
    # What a KeyError says is the key alone.
    message = name + ": " + str(error) if isinstance(error, KeyError) else str(error) or name
    answer({"error": {"name": name, "message": message, "stack": traceback.format_exc(), "place": place}})
`;
