import { readFileSync } from "node:fs";
import { Argument, Command, InvalidArgumentError, Option } from "commander";
import type { Cli, GlobalOptions } from "./cli.ts";
import { usageError } from "./cli-error.ts";
import { contractNames } from "./commands/scaffolds.ts";
import { clientIds } from "./install/clients.ts";

/** Does the work of a command. `runCommand` reports what it throws. */
export type Action = (cli: Cli) => Promise<void>;

const afterHelp = `
Data goes to standard output, everything else to standard error.

With --json every command prints one JSON document on standard output, or, where it streams (logs, serve, check --watch),
one a line. A command that fails prints {"error": {"code", "message", "details"}} there instead; call adds the error
to its usual {"result", "record"}.

Exit codes: 0 ok, 1 failure, 2 wrong usage or arguments, 3 the tool returned an error, 4 no such tool, 5 denied,
6 timed out, 130 interrupted.`;

const callHelp = `
Arguments:
  name=Ada            text, number or boolean, as the tool's schema says
  tags=a tags=b       a list, by repeating; or tags='["a","b"]'
  point.x=1           into an object
  filter:='{"a":1}'   JSON as it is

Examples:
  toolrack call internal_file_read path=README.md
  toolrack call internal_file_list --args '{"path": "src"}'
  echo '{"path": "src"}' | toolrack call internal_file_list --args -`;

const approvalsHelp = `
Examples:
  toolrack approvals
  toolrack approvals approve 3f9a1c20be77
  toolrack approvals approve 3f9a1c20be77 --scope always --when '{"path": "drafts/*"}'
  toolrack approvals deny 3f9a1c20be77 --reason 'ask for the archive instead'`;

const installHelp = `
Examples:
  toolrack install
  toolrack install cursor
  toolrack install claude-code --project --expert writer
  toolrack install codex --http --dry-run`;

const mcpServersHelp = `
Examples:
  toolrack mcp-servers
  toolrack mcp-servers add docs --url https://example.com/mcp --header 'Authorization=Bearer \${secret:DOCS}'
  toolrack mcp-servers add files -- npx -y @modelcontextprotocol/server-filesystem /data
  toolrack mcp-servers add memory --install @modelcontextprotocol/server-memory@2026.8.31
  toolrack mcp-servers show files
  toolrack mcp-servers approve files read_file 4f1c09aa5be37d20
  toolrack mcp-servers login docs
  toolrack mcp-servers import ~/.cursor/mcp.json`;

const apisHelp = `
Examples:
  toolrack apis add https://api.example.com/openapi.json
  toolrack apis add ./crm.yaml --key crm --base-url https://crm.example.com/v2 --auth 'key=\${secret:CRM_KEY}'
  toolrack apis check ./crm.yaml
  toolrack apis show crm`;

const skillsHelp = `
Examples:
  toolrack skills import ./pdf-tools
  toolrack skills import dump.sql --trust
  toolrack skills show pdf-tools
  toolrack skills export "SearXNG Search" --to skills`;

const evalHelp = `
Examples:
  toolrack eval
  toolrack eval evals/files.yaml --offline
  toolrack eval evals/*.yaml --model local/qwen3 --runs 20`;

/**
 * Makes the program with all commands. The code of a command is imported only when it runs, so that help,
 * completion and usage errors are fast.
 */
export function makeProgram(perform: (options: GlobalOptions, action: Action) => Promise<void>): Command {
  const program = new Command("toolrack")
    .description("The tool runtime for AI agents.")
    .version(version(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "print the help of a command")
    .option(
      "--dir <dir>",
      "the workspace; default: the nearest folder upwards with toolrack.config.* or tools/",
    )
    .option("--json", "print JSON for programs")
    .option("--no-color", "no colours; NO_COLOR does the same")
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError("Add --help to see what there is.")
    .addHelpText("after", afterHelp);
  const command = (name: string, description: string) => program.command(name).description(description);
  /** Returns a function for commander that loads a command and runs it with commander's arguments and options. */
  const runs =
    <Words extends readonly unknown[]>(load: () => Promise<(cli: Cli, ...words: Words) => Promise<void>>) =>
    (...words: Words) =>
      perform(program.opts<GlobalOptions>(), async (cli) => (await load())(cli, ...words));

  command("serve", "serve the tools over HTTP, until Ctrl-C")
    .option(
      "--port <port>",
      "where to listen; 0 takes any free one; default: the config's, or 7300",
      portNumber,
    )
    .option("--host <host>", "the address to listen on; default: the config's, or 127.0.0.1")
    .option("--no-watch", "do not load tool files anew when they change")
    .option("--drain", "have the server that runs on the workspace hand over and end, and wait for it")
    .action(runs(async () => (await import("./commands/serve.ts")).serve));

  command("worker", "run the calls of lanes that servers put into Redis, until Ctrl-C")
    .option(
      "--lane <name>",
      "take calls of this lane; may be given several times; default: all lanes",
      severalNames,
    )
    .option("--concurrency <n>", "how many calls it runs at once", placesNumber, 8)
    .option("--no-watch", "do not load tool files anew when they change")
    .action(runs(async () => (await import("./commands/serve.ts")).worker));

  command("mcp", "serve the tools to the MCP client that starts this, over standard input and output")
    .option("--expert <name>", "only what this expert has")
    .option("--no-watch", "do not load tool files anew when they change; implies --no-join")
    .option("--no-join", "open the workspace itself, even if a server runs on it")
    .action(runs(async () => (await import("./commands/mcp.ts")).mcp));

  command("install", "connect an MCP client to the workspace, by writing into its configuration")
    .addArgument(oneOf("[client]", "without one, lists the clients and their files", clientIds.join(" ")))
    .option(
      "--http",
      "connect to the running server instead of starting the program, with a token of its own",
    )
    .option("--url <url>", "with --http: where clients reach the server; default: where it listens")
    .option("--expert <name>", "only what this expert has")
    .option("--name <key>", "what the client calls it", "toolrack")
    .option("--project", "write the file of the project in the current folder, not the user's own")
    .option("--print", "only print what would be written")
    .option("--dry-run", "only show what would change")
    .option("--force", "replace what another server has under the name")
    .addHelpText("after", installHelp)
    .action(runs(async () => (await import("./install/install.ts")).install));

  command("uninstall", "take the entry that install wrote out of an MCP client's configuration")
    .addArgument(oneOf("<client>", "", clientIds.join(" ")))
    .option("--name <key>", "what the client calls it", "toolrack")
    .option("--project", "from the file of the project in the current folder")
    .option("--dry-run", "only show what would change")
    .option("--force", "also what is not Toolrack's")
    .action(runs(async () => (await import("./install/install.ts")).uninstall));

  command("chat", "talk to a model that has the tools, on the running server or one of its own")
    .argument("[words...]", "one message; without it, a conversation on the terminal, or standard input")
    .option("--expert <name>", "as this expert, with its tools only")
    .option("--model <name>", "as GET /v1/models lists it; default: the config's chat.model")
    .option("--session <id>", "go on with a conversation")
    .action(runs(async () => (await import("./commands/chat.ts")).chat));

  command("approvals", "show and answer the questions that wait on the running server")
    .addArgument(oneOf("[action]", "what to do", "list approve deny rules forget"))
    .argument("[id]", "the question, or for forget the rule")
    .option("--all", "list those that were answered too")
    .option("--reason <text>", "reaches the caller and its model")
    .option("--args <json>", "approve with these arguments instead: JSON, @FILE, or - for standard input")
    .addOption(
      new Option("--scope <scope>", "how far the answer goes").choices(["once", "session", "always"]),
    )
    .option(
      "--tool <pattern>",
      "with --scope: for these tools, such as internal_file_* or mcp:KEY (a slash in the key is %2F)",
    )
    .option("--when <json>", "with --scope: only for calls with these arguments; * stands for anything")
    .addHelpText("after", approvalsHelp)
    .action(runs(async () => (await import("./commands/approvals.ts")).approvals));

  command("loops", "show sessions that went in circles, why, and let one go on")
    .addArgument(oneOf("[action]", "what to do", "list resume"))
    .argument("[session]", "the session to let go on")
    .action(runs(async () => (await import("./commands/workspace-state.ts")).loops));

  command("schedules", "show and cancel what is to run later")
    .addArgument(oneOf("[action]", "what to do", "list cancel"))
    .argument("[id]", "the schedule")
    .option("--all", "list those that have ended too, the last 500")
    .action(runs(async () => (await import("./commands/workspace-state.ts")).schedules));

  command("secrets", "keep values that tools need, encrypted; none is ever printed")
    .addArgument(oneOf("[action]", "what to do", "list set remove"))
    .argument("[name]", "the secret; set reads its value from standard input, or asks for it")
    .argument("[variable]", "with a tool's name before it: what only this tool is given")
    .option(
      "--token <token>",
      "set, remove: for the calls of one token, by its name or id; master: the workspace's own",
    )
    .action(runs(async () => (await import("./commands/access.ts")).secrets));

  command("settings", "keep values that tools need and nobody has to hide")
    .addArgument(oneOf("[action]", "what to do", "list set remove"))
    .argument("[name]", "the setting, NAME=VALUE to set it; or the tool that alone is given it")
    .argument("[variable]", "with a tool's name before it: NAME=VALUE, or NAME")
    .argument("[value]", "its value; set NAME reads it from standard input, or asks for it")
    .action(runs(async () => (await import("./commands/access.ts")).settings));

  command("data", "show and delete the files that sandboxed tools and skills have kept")
    .addArgument(oneOf("[action]", "what to do", "list clear"))
    .argument("[name]", "clear: the tool, or what list calls it")
    .action(runs(async () => (await import("./commands/workspace-state.ts")).data));

  command("searches", "show and delete what search has learned from use, and switch learning on or off")
    .addArgument(oneOf("[action]", "what to do", "list forget clear on off"))
    .argument("[id]", "forget: the search, as list calls it")
    .action(runs(async () => (await import("./commands/workspace-state.ts")).searches));

  command("skills", "show, import and export skills: sets of tools in the database and in folders")
    .addArgument(oneOf("[action]", "what to do", "list show import export trust remove"))
    .argument("[names...]", "skills by id or name; for import folders, .sql dumps or .csv tables")
    .option("--to <dir>", "export: the folder to write into; default: here")
    .option("--all", "export: all skills")
    .option("--replace", "import, export: also what is there already")
    .option("--trust", "import: it is my own, so give it the network and the secrets that it names")
    .addHelpText("after", skillsHelp)
    .action(runs(async () => (await import("./commands/skills.ts")).skills));

  command("experts", "show, make and remove experts: named sets of skills and tools")
    .addArgument(oneOf("[action]", "what to do", "list show create remove"))
    .argument("[name]", "the expert's name, or its id")
    .option("--skills <skill...>", "create: ids or names of skills")
    .option(
      "--tools <pattern...>",
      "create: tools by name, such as internal_file_*, or of one MCP server: mcp:KEY (a slash in the key is %2F)",
    )
    .option("--description <text>", "create: what it is for")
    .action(runs(async () => (await import("./commands/skills.ts")).experts));

  command("tokens", "say who may use the server, and for what")
    .addArgument(oneOf("[action]", "what to do", "list create remove"))
    .argument("[name]", "the token's name; for remove also its id")
    .option(
      "--tools <pattern...>",
      "create: may use these tools, such as internal_file_*, or those of one MCP server: mcp:KEY (a slash in the key is %2F)",
    )
    .option("--experts <pattern...>", "create: may use these experts")
    .option(
      "--approve <pattern...>",
      "create: may approve calls of these tools, its own like those of others; default: of none",
    )
    .option("--admin", "create: may do everything")
    .option("--chat", "create: may talk to models; default: when it may use tools or experts")
    .option("--no-chat", "create: may use tools, but not talk to models")
    .option("--expires <duration>", "create: is valid for so long, such as 12h or 30d; default: for ever")
    .action(runs(async () => (await import("./commands/access.ts")).tokens));

  command("mcp-servers", "show and change the MCP servers whose tools are on the rack of the running server")
    .addArgument(
      oneOf(
        "[action]",
        "what to do",
        "list show add remove enable disable restart approve login logout import",
      ),
    )
    .argument("[key]", "the server; for import the file, such as ~/.cursor/mcp.json")
    .argument(
      "[rest...]",
      "approve: the tool and the hash that show prints, the tool alone, or nothing for all; add: the command and its arguments, after --",
    )
    .option("--url <url>", "add: the server's address")
    .option("--type <type>", "add: http or sse; default: found out")
    .option("--header <name=value...>", "add: a header; secrets by their names, as in the examples")
    .option("--env <name=value...>", "add: a variable of its environment")
    .option("--install <package@version>", "add: a package that is installed ahead and run by Node")
    .option("--no-open", "login: only print the address of the page")
    .addHelpText("after", mcpServersHelp)
    .action(runs(async () => (await import("./commands/mcp-servers.ts")).mcpServers));

  command("apis", "show and change the HTTP APIs whose operations are tools of the running server")
    .addArgument(
      oneOf(
        "[action]",
        "what to do",
        "list show add check remove enable disable restart approve login logout",
      ),
    )
    .argument(
      "[what]",
      "the API's key; for add and check its description: an address, or a file of the workspace",
    )
    .argument(
      "[rest...]",
      "approve: the operation and the hash that show prints, the operation alone, or nothing",
    )
    .option("--key <key>", "add: how it is called here; default: from the address or the file")
    .option("--base-url <url>", "add: where the API is; default: what its description says")
    .option(
      "--auth <scheme=value...>",
      "add: a credential by the name of its scheme; secrets by their names; a client of OAuth as JSON",
    )
    .option("--header <name=value...>", "add: a header that every request has")
    .option("--read-only", "add: offer only what reads")
    .option("--no-open", "login: only print the address of the page")
    .addHelpText("after", apisHelp)
    .action(runs(async () => (await import("./commands/apis.ts")).apis));

  command("list", "list the tools")
    .option("--category <category>", "only those of a category")
    .option("--tag <tag>", "only those with a tag")
    .option("--all", "disabled ones too")
    .option("--tokens", "what each source and tool costs a model's context, estimated")
    .action(runs(async () => (await import("./commands/tools.ts")).list));

  command("show", "show everything about a tool")
    .argument("<name>", "its name or an alias")
    .action(runs(async () => (await import("./commands/tools.ts")).show));

  command("types", "print the tools as an interface of TypeScript, for createClient of @toolrack/core/client")
    .option("--expert <name>", "only the tools of an expert of the running server")
    .action(runs(async () => (await import("./commands/tools.ts")).types));

  command("search", "find tools by words, English or Chinese")
    .argument("<words...>")
    .option("--limit <count>", "at most so many", wholeNumber, 10)
    .action(runs(async () => (await import("./commands/tools.ts")).search));

  command("call", "run a tool")
    .argument("<name>", "its name or an alias, tool://NAME, or a toolx call as YAML, @FILE or -")
    .argument("[key=value...]", "its arguments")
    .option("--args <json>", "the arguments as JSON, @FILE, or - for standard input")
    .option("--dry-run", "try a sandboxed tool without a network, with its mocks, keeping nothing")
    .option("-y, --yes", "approve dangerous tools beforehand")
    .option("--timeout <duration>", "stop it after 500ms, 30s, 2m")
    .option("--session <id>", "the session that the call belongs to")
    .option("-o, --output <file>", "save the first attachment, or else the text, in a file")
    .addHelpText("after", callHelp)
    .action(runs(async () => (await import("./commands/call.ts")).call));

  command("run", "run code over the tools: TypeScript or JavaScript with tools.NAMESPACE.NAME(args)")
    .argument("<file>", "the code; - for standard input")
    .option("-y, --yes", "approve dangerous tools beforehand")
    .option("--timeout <duration>", "stop it after 500ms, 30s, 2m, without the time for approvals")
    .option("--session <id>", "the session that the calls belong to")
    .option("-o, --output <file>", "save the first attachment, or else the text, in a file")
    .action(runs(async () => (await import("./commands/call.ts")).run));

  command("new", "write the beginnings of a tool")
    // Completion offers these words, but any word is accepted, because with --style the tool's name stands here.
    .addArgument(new Argument("[contract]", "how it is written").choices(contractNames).argParser(String))
    .argument("[name]", "its name; GROUP/ACTION for internal")
    .addOption(
      new Option("--style <contract>", "instead of the first word: new NAME --style single-file").choices(
        contractNames,
      ),
    )
    .action(runs(async () => (await import("./commands/new.ts")).newTool));

  command("check", "say what became of every tool file: loaded, adapted, failed and why")
    .argument("[path]", "a workspace, any folder of tool files, or one file")
    .option("-w, --watch", "go on, and tell of every change")
    .option("--lint", "also what in the definitions of their tools misleads models")
    .action(runs(async () => (await import("./commands/check.ts")).check));

  command("test", "run the saved calls in tests/*.calls.yaml, or save one with --from")
    .argument("[pattern]", "a part of a file, a test's name or a tool's; `*` stands for anything")
    .addOption(
      new Option(
        "--mock <mode>",
        "recorded: what is not recorded runs if it only reads; strict: it fails; off: everything runs",
      )
        .choices(["recorded", "strict", "off"])
        .default("recorded"),
    )
    .option("-u, --update", "rewrite snapshots; with --mock off also what inner calls answered")
    .addOption(
      new Option("--reporter <form>", "how results are printed; default: pretty").choices([
        "pretty",
        "json",
        "junit",
      ]),
    )
    .option("-w, --watch", "go on, and run what a changed file touches")
    .option("--from <callId>", "write a test of a recorded call; `logs --ids` shows the last ones")
    .option("--name <name>", "with --from: what the test is called")
    .option("--file <name>", "with --from: the file in tests; default: that of the tool")
    .option("--schema", "print the JSON Schema of the files, for editors")
    .action(runs(async () => (await import("./commands/test.ts")).test));

  command(
    "mock",
    "serve a recording over MCP and HTTP, until Ctrl-C: every call is answered as it was recorded",
  )
    .argument("[file]", "a file of tests")
    .option("--call <callId>", "a recorded call, and those that it made")
    .option("--session <id>", "all recorded calls of a session")
    .option("--port <port>", "where to listen; default: any free one", portNumber)
    .option("--host <host>", "the address to listen on; default: 127.0.0.1")
    .option("--stdio", "serve the MCP client that starts this, over standard input and output")
    .action(runs(async () => (await import("./commands/mock.ts")).mock));

  command("lint", "say what in the definitions of tools misleads models, why, and what would settle it")
    .argument(
      "[pattern]",
      "only tools with such a name, such as internal_file_*, or of one MCP server: mcp:KEY",
    )
    .action(runs(async () => (await import("./commands/check.ts")).lint));

  command("eval", "try whether prompts lead to the right tools, by search and by a model")
    .argument("[files...]", "default: evals/*.yaml of the workspace")
    .option("--offline", "ask no model, although a provider is configured")
    .option("--model <name>", "as GET /v1/models lists it; default: the file's, or the config's chat.model")
    .option("--runs <count>", "ask each prompt so often; default: the file's, or 5", oneOrMore)
    .addHelpText("after", evalHelp)
    .action(runs(async () => (await import("./commands/eval.ts")).evaluateFiles));

  command("logs", "show the last calls")
    .option("-f, --follow", "go on, and show those to come")
    .option("--tool <pattern>", "a name, a glob such as internal_file_*, or /a regular expression/")
    .addOption(new Option("--status <status>", "only those that ended so").choices(["success", "error"]))
    .option("--since <time>", "from 10m ago on, or from 2026-03-15T02:29:40Z")
    .option("-n, --limit <count>", "the last so many; 0 for all", wholeNumber, 50)
    .option("--ids", "the tool's own name and the call's id instead of the display name")
    .action(runs(async () => (await import("./commands/logs.ts")).logs));

  command("calls", "show a recorded call, with what its tool said")
    .addArgument(oneOf("<action>", "what to do", "show"))
    .argument("<id>", "the call; `logs --ids` shows the last ones")
    .action(runs(async () => (await import("./commands/logs.ts")).calls));

  command("doctor", "check that everything Toolrack needs is there")
    .option("--repair", "save what can be read of a damaged database; no server may run")
    .action(runs(async () => (await import("./commands/doctor.ts")).doctor));

  command("completion", "print a completion script for a shell")
    .addArgument(oneOf("<shell>", "", "bash zsh fish"))
    .action(runs(async () => (await import("./commands/completion.ts")).completion));

  program
    .command("__complete", { hidden: true })
    .argument("[words...]")
    .action(
      runs<[string[]]>(async () => {
        const { complete } = await import("./commands/completion.ts");
        return (cli, words) => complete(cli, program, words);
      }),
    );

  return program;
}

/** An argument that is one of these words, which are divided by spaces. */
function oneOf(name: string, description: string, known: string): Argument {
  const words = known.split(" ");
  return new Argument(name, description).choices(words).argParser((word) => {
    if (words.includes(word)) return word;
    throw usageError(`"${word}" is not known here. Say one of: ${words.join(", ")}.`);
  });
}

function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

function oneOrMore(text: string): number {
  const count = wholeNumber(text);
  if (count === 0) throw new InvalidArgumentError("It must be 1 or more.");
  return count;
}

/** Adds a name to those that the option was given before. */
function severalNames(name: string, before: readonly string[] = []): readonly string[] {
  if (!/^[A-Za-z0-9_-]{1,40}$/.test(name))
    throw new InvalidArgumentError("The name of a lane has 1 to 40 letters, digits, _ or -.");
  return [...before, name];
}

function placesNumber(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text))
    throw new InvalidArgumentError("It must be a whole number from 1 to 9999.");
  return Number(text);
}

function portNumber(text: string): number {
  if (!/^\d+$/.test(text) || Number(text) > 65_535) {
    throw new InvalidArgumentError("It must be a whole number from 0 to 65535.");
  }
  return Number(text);
}

function version(): string {
  // The package is two folders up, in the sources and in the build.
  const manifest = new URL("../../package.json", import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}
