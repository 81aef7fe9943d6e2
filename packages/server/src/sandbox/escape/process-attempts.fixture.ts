import type { Attempt } from "./attempt.fixture.ts";

const cat = `["-e", "process.stdout.write(require('fs').readFileSync(process.argv[1]))", trap.secretFile]`;

export const processAttempts: readonly Attempt[] = [
  {
    name: "spawn a shell",
    worksOutside: true,
    body: `return require("child_process").execSync("cat " + trap.secretFile, { encoding: "utf8" })`,
  },
  {
    name: "spawn Node again without permissions",
    worksOutside: true,
    body: `return require("child_process").execFileSync(process.execPath, ${cat}, { encoding: "utf8" })`,
  },
  {
    name: "fork a module",
    worksOutside: true,
    body: `return new Promise((done, fail) => { const child = require("child_process").fork(trap.secretModule); child.on("error", fail); child.on("exit", () => done("ESCAPED")) })`,
  },
  {
    name: "start a cluster",
    worksOutside: true,
    body: `const cluster = require("cluster"); cluster.setupPrimary({ exec: trap.secretModule }); const worker = cluster.fork(); await new Promise((done, fail) => { worker.on("exit", done); worker.on("error", fail) }); return "ESCAPED"`,
  },
  { name: "become another program", body: `process.execve(trap.node, ["node", ...${cat}], {})` },
  {
    name: "start a thread without permissions",
    worksOutside: true,
    body: `const { Worker } = require("worker_threads"); const worker = new Worker("require('worker_threads').parentPort.postMessage(require('fs').readFileSync(" + JSON.stringify(trap.secretFile) + ", 'utf8'))", { eval: true, execArgv: [], env: {} }); return new Promise((done, fail) => worker.on("message", done).on("error", fail))`,
  },
  {
    name: "spawn by the inner binding",
    worksOutside: true,
    body: `const binding = process.binding("spawn_sync"); const result = binding.spawn({ file: "/bin/cat", args: ["cat", trap.secretFile], stdio: [{ type: "pipe", readable: true, writable: false }, { type: "pipe", readable: false, writable: true }, { type: "pipe", readable: false, writable: true }] }); return String(result.output?.[1])`,
  },
  {
    name: "read by the inner binding",
    body: `const binding = process.binding("fs"); const fd = binding.open(trap.secretFile, 0, 438); return require("fs").readFileSync(fd, "utf8")`,
  },
  {
    name: "reach inner modules",
    body: `return require("internal/bootstrap/realm") && require("fs").readFileSync(trap.secretFile, "utf8")`,
  },
  {
    name: "load a native addon",
    worksOutside: true,
    body: `const module = { exports: {} }; process.dlopen(module, require.resolve("harmless/addon.node")); return "ESCAPED"`,
  },
  {
    name: "load a cryptographic engine",
    body: `require("crypto").setEngine(require.resolve("harmless/addon.node")); return "ESCAPED"`,
  },
  {
    name: "call native functions",
    body: `new (require("node:ffi").DynamicLibrary)("libc.so.6"); return "ESCAPED"`,
  },
  {
    name: "open files by WASI",
    worksOutside: true,
    body: `const { WASI } = require("wasi"); new WASI({ version: "preview1", preopens: { "/": "/" } }); return "ESCAPED"`,
  },
  {
    name: "open the inspector",
    worksOutside: true,
    body: `const inspector = require("inspector"); inspector.open(0, "127.0.0.1"); return inspector.url() ? "ESCAPED" : ""`,
  },
  {
    name: "evaluate by an inspector session",
    body: `const { Session } = require("inspector"); const session = new Session(); session.connect(); return new Promise((done, fail) => session.post("Runtime.evaluate", { expression: "process.mainModule.require('fs').readFileSync(" + JSON.stringify(trap.secretFile) + ", 'utf8')", includeCommandLineAPI: true }, (error, result) => error ? fail(error) : done(result)))`,
  },
  {
    // Without root the signal arrives, and must open nothing: the test looks at the host's inspector after each attempt.
    name: "wake the inspector of the host",
    body: `process._debugProcess(trap.hostPid); await new Promise((done) => setTimeout(done, 300))`,
  },
  {
    name: "signal the host",
    worksOutside: true,
    needsOwnUser: true,
    body: `process.kill(trap.hostPid, "SIGWINCH"); await new Promise((done) => setTimeout(done, 100))`,
  },
  {
    name: "signal the parent",
    needsOwnUser: true,
    body: `process.kill(process.ppid, "SIGWINCH"); await new Promise((done) => setTimeout(done, 100))`,
  },
  {
    name: "signal everybody",
    needsOwnUser: true,
    body: `process.kill(-1, "SIGWINCH"); await new Promise((done) => setTimeout(done, 100))`,
  },
  { name: "become root", needsOwnUser: true, body: `process.setuid(0); return "ESCAPED"` },
  {
    name: "become a member of the root group",
    needsOwnUser: true,
    body: `process.setgroups([0]); process.setgid(0); return "ESCAPED"`,
  },
  {
    name: "take the permissions off",
    body: `process.permission.has = () => true; Object.defineProperty(process, "permission", { value: undefined }); return require("fs").readFileSync(trap.secretFile, "utf8")`,
  },
  {
    name: "give itself permissions by the environment",
    body: `process.env.NODE_OPTIONS = "--allow-fs-read=*"; process.execArgv.push("--allow-fs-read=*"); return require("fs").readFileSync(trap.secretFile, "utf8")`,
  },
  {
    name: "patch what the permissions compare",
    body: `String.prototype.startsWith = () => true; Array.prototype.includes = () => true; require("path").resolve = () => process.env.TMPDIR; return require("fs").readFileSync(trap.secretFile, "utf8")`,
  },
  {
    name: "reach the host by the constructor of what it gave",
    body: `return call.request.constructor("return process")().mainModule?.require("fs").readFileSync(trap.secretFile, "utf8")`,
  },
  {
    name: "register hooks that load from the host",
    body: `const { registerHooks } = require("module"); registerHooks({ load: (url, context, next) => next(url.includes("zlib-not") ? "file://" + trap.secretModule : url, context), resolve: (name, context, next) => name === "zlib-not" ? { url: "file://" + trap.secretModule, shortCircuit: true } : next(name, context) }); return (await import("zlib-not")).default`,
  },
];
