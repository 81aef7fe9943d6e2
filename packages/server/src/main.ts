// At SIGUSR1 Node opens its debugger to everybody on the machine, and any process of the same user may send that signal: a
// tool at level 2 of the sandbox too. Where somebody listens to it, Node leaves it alone. So this comes before all else.
process.on("SIGUSR1", () => {});

const { runCli } = await import("./cli/run-cli.ts");
await runCli(process.argv.slice(2));
