import type { Attempt } from "./attempt.fixture.ts";

export const fileAttempts: readonly Attempt[] = [
  {
    name: "read a file of the host",
    worksOutside: true,
    body: `return require("fs").readFileSync(trap.secretFile, "utf8")`,
  },
  {
    name: "read by a path that climbs",
    worksOutside: true,
    body: `return require("fs").readFileSync(__dirname + "/../../../../../../.." + trap.secretFile, "utf8")`,
  },
  {
    name: "read by a path in a buffer",
    worksOutside: true,
    body: `return require("fs").readFileSync(Buffer.from(trap.secretFile), "utf8")`,
  },
  {
    name: "read by a file URL",
    worksOutside: true,
    body: `return require("fs").promises.readFile(require("url").pathToFileURL(trap.secretFile), "utf8")`,
  },
  {
    name: "read by a path that changes when asked twice",
    body: `let asked = 0; const path = { toString: () => asked++ ? trap.secretFile : process.cwd(), __proto__: Buffer.prototype }; return require("fs").readFileSync(path, "utf8")`,
  },
  {
    name: "read with a stream",
    worksOutside: true,
    body: `let text = ""; for await (const chunk of require("fs").createReadStream(trap.secretFile)) text += chunk; return text`,
  },
  {
    name: "read as a blob",
    worksOutside: true,
    body: `return (await require("fs").openAsBlob(trap.secretFile)).text()`,
  },
  { name: "read with fetch of a file URL", body: `return (await fetch("file://" + trap.secretFile)).text()` },
  {
    name: "read a list of a directory",
    worksOutside: true,
    body: `return require("fs").readdirSync(trap.directory).filter((name) => name !== "socket").map((name) => require("fs").readFileSync(trap.directory + "/" + name, "utf8"))`,
  },
  {
    name: "read the accounts of the machine",
    worksOutside: true,
    body: `return require("fs").readFileSync("/etc/passwd", "utf8")`,
  },
  {
    name: "read through a symbolic link of its own",
    body: `const fs = require("fs"); const link = process.env.TMPDIR + "/link"; fs.rmSync(link, { force: true }); fs.symlinkSync(trap.secretFile, link); return fs.readFileSync(link, "utf8")`,
  },
  {
    name: "read through a hard link of its own",
    body: `const fs = require("fs"); const link = process.env.TMPDIR + "/hard"; fs.rmSync(link, { force: true }); fs.linkSync(trap.secretFile, link); return fs.readFileSync(link, "utf8")`,
  },
  {
    name: "read through a linked directory",
    body: `const fs = require("fs"); const link = process.env.TMPDIR + "/directory"; fs.rmSync(link, { force: true }); fs.symlinkSync(trap.directory, link, "dir"); return fs.readFileSync(link + "/secret.txt", "utf8")`,
  },
  {
    name: "read through a relative link",
    body: `const fs = require("fs"); const link = process.env.TMPDIR + "/relative"; fs.rmSync(link, { force: true }); fs.symlinkSync("../../../../../.." + trap.secretFile, link); return fs.readFileSync(link, "utf8")`,
  },
  {
    name: "copy a file of the host into the scratch directory",
    body: `const fs = require("fs"); const copy = process.env.TMPDIR + "/copy"; fs.cpSync(trap.secretFile, copy); return fs.readFileSync(copy, "utf8")`,
  },
  {
    name: "rename a file of the host into the scratch directory",
    body: `const fs = require("fs"); fs.renameSync(trap.secretFile, process.env.TMPDIR + "/moved"); return fs.readFileSync(process.env.TMPDIR + "/moved", "utf8")`,
  },
  { name: "require a module of the host", worksOutside: true, body: `return require(trap.secretModule)` },
  {
    name: "import a module of the host",
    worksOutside: true,
    body: `return (await import(require("url").pathToFileURL(trap.secretModule))).default`,
  },
  {
    name: "require through a Module of its own",
    worksOutside: true,
    body: `const { createRequire } = require("module"); return createRequire(trap.directory + "/x.js")("./secret.cjs")`,
  },
  {
    name: "load a file of the host as environment",
    worksOutside: true,
    body: `process.loadEnvFile(trap.secretFile); return process.env.SECRET`,
  },
  {
    name: "make a database on the host",
    worksOutside: true,
    body: `const { DatabaseSync } = require("node:sqlite"); const db = new DatabaseSync(trap.directory + "/made.db"); db.exec("create table t (x)"); return "made"`,
  },
  {
    name: "attach a file to a database",
    body: `const { DatabaseSync } = require("node:sqlite"); const db = new DatabaseSync(":memory:"); db.exec("attach '" + trap.directory + "/attached.db' as a; create table a.t (x)"); return "made"`,
  },
  {
    name: "vacuum a database into a file",
    body: `const { DatabaseSync } = require("node:sqlite"); const db = new DatabaseSync(":memory:"); db.exec("create table t (x); vacuum into '" + trap.directory + "/vacuumed.db'"); return "made"`,
  },
  {
    name: "write a file of the host",
    worksOutside: true,
    body: `require("fs").writeFileSync(trap.directory + "/written", "x")`,
  },
  {
    name: "append to a file of the host",
    worksOutside: true,
    body: `require("fs").appendFileSync(trap.secretFile, "x")`,
  },
  {
    name: "empty a file of the host",
    worksOutside: true,
    body: `require("fs").truncateSync(trap.secretFile, 0)`,
  },
  {
    name: "make a directory on the host",
    worksOutside: true,
    body: `require("fs").mkdtempSync(trap.directory + "/made-")`,
  },
  {
    name: "write through a link of its own",
    body: `const fs = require("fs"); const link = process.env.TMPDIR + "/out"; fs.rmSync(link, { force: true }); fs.symlinkSync(trap.directory + "/linked", link); fs.writeFileSync(link, "x")`,
  },
  {
    name: "write with a diagnostic report",
    worksOutside: true,
    body: `return require("path").basename(process.report.writeReport(trap.directory + "/report.json"))`,
  },
  {
    name: "write with a heap snapshot",
    worksOutside: true,
    body: `return require("path").basename(require("v8").writeHeapSnapshot(trap.directory + "/heap.heapsnapshot"))`,
  },
  {
    name: "write with the compile cache",
    body: `const { enableCompileCache, flushCompileCache } = require("module"); enableCompileCache(trap.directory + "/cache"); require("zlib"); flushCompileCache(); return "cache"`,
  },
  {
    name: "write with flags of the engine",
    body: `const v8 = require("v8"); v8.setFlagsFromString("--trace-turbo-path=" + trap.directory); v8.setFlagsFromString("--trace-turbo"); const hot = (x) => x * 2 + 1; let sum = 0; for (let i = 0; i < 3e6; i++) sum += hot(i); v8.setFlagsFromString("--no-trace-turbo"); return sum`,
  },
  {
    name: "write with trace events",
    body: `try { process.chdir(trap.directory) } catch {} const tracing = require("trace_events").createTracing({ categories: ["node"] }); tracing.enable(); await new Promise((done) => setTimeout(done, 50)); tracing.disable()`,
  },
  {
    name: "write beside its own code",
    worksOutside: true,
    body: `require("fs").writeFileSync(__dirname + "/written-beside", "x"); return "ESCAPED"`,
  },
  {
    name: "write its dependencies",
    worksOutside: true,
    body: `require("fs").appendFileSync(require.resolve("harmless"), "//"); return "ESCAPED"`,
  },
  {
    name: "use descriptors that were left open",
    body: `const fs = require("fs"); const found = []; for (let fd = 4; fd < 300; fd++) { try { const stat = fs.fstatSync(fd); if (stat.isFile() && stat.size < 1e6) found.push(fs.readFileSync(fd, "utf8")) } catch {} } return found`,
  },
];

export const procAttempts: readonly Attempt[] = [
  {
    name: "read its environment in /proc",
    body: `return require("fs").readFileSync("/proc/self/environ", "utf8")`,
  },
  {
    name: "read the host's environment in /proc",
    worksOutside: true,
    body: `return require("fs").readFileSync("/proc/" + trap.hostPid + "/environ").length > 0 ? "ESCAPED" : ""`,
  },
  {
    name: "read the parent's environment in /proc",
    body: `return ["1", process.ppid].map((pid) => require("fs").readFileSync("/proc/" + pid + "/environ", "utf8"))`,
  },
  {
    name: "walk to the host by /proc/1/root",

    body: `return require("fs").readFileSync("/proc/1/root" + trap.secretFile, "utf8")`,
  },
  {
    name: "walk to the host by /proc/self/cwd",
    body: `return require("fs").readFileSync("/proc/self/cwd/../../../.." + trap.secretFile, "utf8")`,
  },
  {
    name: "write the memory of its own process",
    body: `require("fs").openSync("/proc/self/mem", "r+"); return "ESCAPED"`,
  },
  {
    name: "change a setting of the kernel",
    body: `const fs = require("fs"); fs.writeFileSync("/proc/sys/kernel/core_pattern", fs.readFileSync("/proc/sys/kernel/core_pattern")); return "ESCAPED"`,
  },
  {
    name: "find the host's secrets in the environment",
    worksOutside: true,
    body: `return { ...process.env }`,
  },
  { name: "find the host's secrets in a report", body: `return process.report.getReport()` },
  {
    name: "find the host's secrets in the arguments",
    body: `return [process.argv, process.execArgv, process.title]`,
  },
];
