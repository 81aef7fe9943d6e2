// At SIGUSR1 Node opens its debugger to everybody on the machine, and any process of the same user may send that signal: a
// tool at level 2 of the sandbox too. Where somebody listens to it, Node leaves it alone. So this comes before all else.
process.on("SIGUSR1", () => {});

const [command, ...args] = process.argv.slice(2);
if (command === "mcp") (await import("./helpers/restart.ts")).restartIfAlone(args);

const { runProgram } = await import("./cli/index.ts");
await runProgram(process.argv.slice(2));
