#!/usr/bin/env node
// Plain JavaScript that any Node understands: it must be able to say that this Node is too old.

/** A part of Node. An `import` would read all of its members, which load others: 5 ms for the five that are used here. */
const part = async (name) => process.getBuiltinModule?.(name) ?? (await import(name));
const { accessSync, constants, existsSync } = await part("node:fs");
const { dirname, join } = await part("node:path");
const { fileURLToPath } = await part("node:url");

// Else Node would open its debugger to the whole machine when any process of the same user sends this signal.
process.on("SIGUSR1", () => {});

const NEEDED = 24;
const source = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const isOld = Number(process.versions.node.split(".")[0]) < NEEDED;
// A checkout of the repo runs the sources themselves, so that nothing needs building first; where this Node is too old,
// with the one that `npm ci` brought.
const brought = fileURLToPath(new URL("../../../node_modules/.bin/node", import.meta.url));
const node = isOld && existsSync(source) && existsSync(brought) ? brought : process.execPath;
if (isOld && node === process.execPath) {
  console.error(
    `toolrack needs Node ${NEEDED} or newer; this is Node ${process.versions.node}. Install a newer Node and run it again.`,
  );
  process.exit(1);
}

if (existsSync(source)) runSources(await part("node:child_process"));
else {
  keepCompiledCode();
  const [, , command, ...words] = process.argv;
  const isDone = command === "list" && (await (await import("../dist/quick-list.js")).listQuickly(words));
  if (!isDone) await import("../dist/main.js");
}

/**
 * Has Node keep the compiled code of the program for the next start, which saves it a third of its time. Only in a folder
 * where nobody else can write, since whoever writes the code decides what runs: that of the program, or the user's own.
 */
function keepCompiledCode() {
  const { enableCompileCache, flushCompileCache } = process.getBuiltinModule("node:module");
  const own = fileURLToPath(new URL("../.cache", import.meta.url));
  enableCompileCache(isWritable(dirname(own)) ? own : join(usersCache(), "toolrack", "code"));
  setTimeout(() => {
    // A client may end the program with a signal that leaves no time to write.
    flushCompileCache();
    releaseMemory();
  }, 3_000).unref();
}

function usersCache() {
  return process.env.XDG_CACHE_HOME ?? join(process.getBuiltinModule("node:os").homedir(), ".cache");
}

/**
 * Gives back what only the start needed, 8 MB of 94 with ten tools and 34 of 136 with 5,000, which V8 would keep until it has
 * to collect for another reason. It takes 80 ms of CPU, once.
 */
function releaseMemory() {
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  setFlagsFromString("--expose-gc");
  process.getBuiltinModule("node:vm").runInNewContext("gc")({ type: "major", flavor: "last-resort" });
  setFlagsFromString("--no-expose-gc");
  trimHeap();
}

/**
 * Has the C library give back what it keeps of freed memory: another 5 MB. Linux with glibc and Node 26 can be asked to;
 * elsewhere nothing is done.
 */
function trimHeap() {
  const { emitWarning } = process;
  try {
    // Node would warn that foreign functions are experimental, which does not concern the user.
    process.emitWarning = () => {};
    const trim = { malloc_trim: { arguments: ["uint64"], return: "int32" } };
    process.getBuiltinModule("node:ffi")?.dlopen(null, trim).functions.malloc_trim(0n);
  } catch {
    // This C library has no such function.
  }
  process.emitWarning = emitWarning;
}

function isWritable(folder) {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function runSources({ spawn }) {
  const child = spawn(
    node,
    [
      "--disable-sigusr1",
      "--conditions=toolrack-source",
      "--disable-warning=ExperimentalWarning",
      source,
      ...process.argv.slice(2),
    ],
    { stdio: "inherit" },
  );
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  // Ctrl-C reaches the child from the terminal itself; handed on as well, it would count as pressed twice.
  process.on("SIGINT", () => {});
  child.on("error", (error) => {
    console.error(error.message);
    process.exit(1);
  });
  child.on("exit", (code) => process.exit(code ?? 1));
}
