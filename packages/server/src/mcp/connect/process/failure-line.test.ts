import { expect, it } from "vitest";
import { failureLine } from "./recent-lines.ts";

/** What programs print when they fail, as they printed it, with shortened stacks. */
const outputs: readonly [name: string, output: string, expected: string | RegExp][] = [
  [
    "a native module that is missing",
    `node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '../build/Release/keytar.node'
Require stack:
- /srv/node_modules/keytar/lib/keytar.js
- /srv/index.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at Object.<anonymous> (/srv/index.js:1:1) {
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '/srv/node_modules/keytar/lib/keytar.js', '/srv/index.js' ]
}

Node.js v20.20.2`,
    "Error: Cannot find module '../build/Release/keytar.node'",
  ],
  [
    "a package that is missing",
    `node:internal/modules/esm/resolve:873
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/b.mjs
    at packageResolve (node:internal/modules/esm/resolve:873:9) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v20.20.2`,
    "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/b.mjs",
  ],
  [
    "a native module for another Node, whose message has several lines",
    `node:internal/modules/cjs/loader:1651
  return process.dlopen(module, path.toNamespacedPath(filename));
                 ^

Error: The module '/srv/better_sqlite3.node'
was compiled against a different Node.js version using
NODE_MODULE_VERSION 108. This version of Node.js requires
NODE_MODULE_VERSION 115. Please try re-compiling or re-installing
    at Module._extensions..node (node:internal/modules/cjs/loader:1651:18) {
  code: 'ERR_DLOPEN_FAILED'
}

Node.js v20.20.2`,
    /^Error: The module '\/srv\/better_sqlite3\.node' was compiled against a different .* requires NODE_MODULE_VERSION 115/,
  ],
  [
    "a wrong import",
    `file:///srv/d.mjs:1
import { foo } from 'node:fs';
         ^^^
SyntaxError: The requested module 'node:fs' does not provide an export named 'foo'
    at ModuleJob._instantiate (node:internal/modules/esm/module_job:213:21)

Node.js v20.20.2`,
    "SyntaxError: The requested module 'node:fs' does not provide an export named 'foo'",
  ],
  [
    "a request that failed, with its cause",
    `node:internal/deps/undici/undici:14976
      Error.captureStackTrace(err);
            ^

TypeError: fetch failed
    at node:internal/deps/undici/undici:14976:13
    at async file:///srv/c.mjs:1:11 {
  [cause]: Error: getaddrinfo ENOTFOUND api.example.test
      at GetAddrInfoReqWrap.onlookup [as oncomplete] (node:dns:107:26) {
    errno: -3008,
    code: 'ENOTFOUND',
    syscall: 'getaddrinfo',
    hostname: 'api.example.test'
  }
}

Node.js v20.20.2`,
    "Error: getaddrinfo ENOTFOUND api.example.test",
  ],
  [
    "a rejected promise",
    `node:internal/process/promises:389
      new UnhandledPromiseRejection(reason);
      ^

UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). The promise rejected with the reason "no token".
    at throwUnhandledRejectionsMode (node:internal/process/promises:389:7) {
  code: 'ERR_UNHANDLED_REJECTION'
}

Node.js v20.20.2`,
    /^UnhandledPromiseRejection: .*with the reason "no token"\.$/,
  ],
  [
    "a variable that a server asks for in an error of its own",
    `Fatal error in main(): Error: BRAVE_API_KEY environment variable is required
    at file:///srv/dist/index.js:120:11
    at ModuleJob.run (node:internal/modules/esm/module_job:325:25)`,
    "Fatal error in main(): Error: BRAVE_API_KEY environment variable is required",
  ],
  [
    "variables that a server asks for in a list",
    `Error: required environment variables are missing:
  - SLACK_BOT_TOKEN
  - SLACK_TEAM_ID
Failed to start server`,
    /^Error: required environment variables are missing: - SLACK_BOT_TOKEN - SLACK_TEAM_ID/,
  ],
  [
    "a variable that a server asks for in a sentence",
    "Starting example MCP server v1.2.3\nPlease set the GITLAB_TOKEN environment variable\nExiting...",
    "Please set the GITLAB_TOKEN environment variable",
  ],
  [
    "warnings around the reason",
    `(node:71) [DEP0040] DeprecationWarning: The \`punycode\` module is deprecated. Please use a userland alternative instead.
(Use \`node --trace-deprecation ...\` to show where the warning was created)
Error: connect ECONNREFUSED 127.0.0.1:5432
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1606:16)
(node:71) Warning: Closing file descriptor 18 on garbage collection`,
    "Error: connect ECONNREFUSED 127.0.0.1:5432",
  ],
  [
    "Node out of memory",
    `<--- Last few GCs --->

FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
----- Native stack trace -----

 1: 0xb8d0a3 node::OOMErrorHandler(char const*, v8::OOMDetails const&) [node]
 2: 0xf060d0 v8::Utils::ReportOOMFailure [node]`,
    "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
  ],
  [
    "an unknown option of Node",
    "/usr/bin/node: bad option: --nosuchopt",
    "/usr/bin/node: bad option: --nosuchopt",
  ],
  [
    "a package that npm does not find",
    `npm warn Unknown user config "nodedir". This will stop working in the next major version of npm.
npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/@acme%2fno-such-thing - Not found
npm error 404
npm error 404  '@acme/no-such-thing@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: /home/ana/.npm/_logs/2026-11-16T22_07_16_285Z-debug-0.log`,
    "npm error 404 Not Found - GET https://registry.npmjs.org/@acme%2fno-such-thing - Not found",
  ],
  [
    "a version that npm does not find",
    `npm ERR! code ETARGET
npm ERR! notarget No matching version found for is-odd@99.99.99.
npm ERR! notarget In most cases you or one of your dependencies are requesting a package version that doesn't exist.
npm ERR! A complete log of this run can be found in: /home/ana/.npm/_logs/x.log`,
    "ETARGET: npm ERR! notarget No matching version found for is-odd@99.99.99.",
  ],
  [
    "a cache that npm may not write to",
    `npm error code EACCES
npm error syscall mkdir
npm error path /home/app/.npm/_cacache/tmp
npm error errno EACCES
npm error
npm error Your cache folder contains root-owned files, due to a bug in
npm error previous versions of npm which has since been addressed.
npm error
npm error To permanently fix this problem, please run:
npm error   sudo chown -R 1000:1000 "/home/app/.npm"`,
    "EACCES: npm error Your cache folder contains root-owned files, due to a bug in",
  ],
  [
    "a registry that wants a token",
    `npm error code E401
npm error Unable to authenticate, your authentication token seems to be invalid.
npm error To correct this please try logging in again with:
npm error   npm login
npm error A complete log of this run can be found in: /home/ana/.npm/_logs/x.log`,
    "E401: npm error Unable to authenticate, your authentication token seems to be invalid.",
  ],
  [
    "a registry behind a proxy that is not there",
    `npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to https://registry.npmjs.org/is-even failed, reason: connect ECONNREFUSED 127.0.0.1:1
npm error     at ClientRequest.<anonymous> (/usr/lib/node_modules/npm/node_modules/minipass-fetch/lib/index.js:130:14)
npm error     at ClientRequest.emit (node:events:524:28) {
npm error   code: 'ECONNREFUSED',
npm error   type: 'system'
npm error }
npm error
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.  See: 'npm help config'
npm error A complete log of this run can be found in: /tmp/c1/_logs/x.log`,
    /^npm error FetchError: request to https:\/\/registry\.npmjs\.org\/is-even failed, reason: connect ECONNREFUSED/,
  ],
  [
    "a certificate of a company",
    `npm error code SELF_SIGNED_CERT_IN_CHAIN
npm error errno SELF_SIGNED_CERT_IN_CHAIN
npm error request to https://registry.npmjs.org/is-odd failed, reason: self-signed certificate in certificate chain
npm error A complete log of this run can be found in: /home/ana/.npm/_logs/x.log`,
    /request to https:\/\/registry\.npmjs\.org\/is-odd failed, reason: self-signed certificate/,
  ],
  [
    "a package without a program",
    `npm error could not determine executable to run
npm error A complete log of this run can be found in: /home/ana/.npm/_logs/x.log`,
    "npm error could not determine executable to run",
  ],
  [
    "a script of npm whose program failed",
    `> server@1.0.0 start
> node index.js

node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/srv/index.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)

Node.js v20.20.2
npm error Lifecycle script \`start\` failed with error:
npm error code 1
npm error path /srv
npm error workspace server@1.0.0
npm error location /srv
npm error command failed
npm error command sh -c node index.js`,
    "Error: Cannot find module '/srv/index.js'",
  ],
  [
    "pnpm",
    " ERR_PNPM_FETCH_404  GET https://registry.npmjs.org/no-such: Not Found - 404\n\nno-such is not in the npm registry, or you have no permission to fetch it.",
    "ERR_PNPM_FETCH_404 GET https://registry.npmjs.org/no-such: Not Found - 404",
  ],
  ["Bun", 'error: Module not found "/srv/index.ts"', 'error: Module not found "/srv/index.ts"'],
  [
    "Deno",
    "\u001b[0m\u001b[1m\u001b[31merror\u001b[0m: Uncaught (in promise) Error: KEY is not set\n    at file:///srv/main.ts:3:9",
    "error: Uncaught (in promise) Error: KEY is not set",
  ],
  [
    "a Python module that is missing",
    `Traceback (most recent call last):
  File "/srv/server.py", line 1, in <module>
    from mcp.server import FastMCP
ModuleNotFoundError: No module named 'mcp'`,
    "ModuleNotFoundError: No module named 'mcp'",
  ],
  [
    "a Python error with its cause",
    `Traceback (most recent call last):
  File "/srv/g.py", line 3, in <module>
    os.environ["TOKEN"]
    ~~~~~~~~~~^^^^^^^^^
  File "<frozen os>", line 679, in __getitem__
KeyError: 'TOKEN'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/g.py", line 5, in <module>
    raise RuntimeError("TOKEN must be set") from e
RuntimeError: TOKEN must be set`,
    "RuntimeError: TOKEN must be set",
  ],
  [
    "a group of Python errors",
    `  + Exception Group Traceback (most recent call last):
  |   File "/srv/f.py", line 5, in <module>
  |     asyncio.run(main())
  |     raise me from None
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/f.py", line 2, in one
    |     async def one(): raise ValueError("API_KEY is missing")
    |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    | ValueError: API_KEY is missing
    +------------------------------------`,
    "ValueError: API_KEY is missing",
  ],
  [
    "settings that pydantic refuses",
    `Traceback (most recent call last):
  File "/srv/s.py", line 5, in <module>
    Settings()
pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings
api_key
  Field required [type=missing, input_value={}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.11/v/missing`,
    /ValidationError: 1 validation error for Settings api_key Field required/,
  ],
  [
    "arguments of a Python program",
    "usage: mcp-x [-h] --token TOKEN\nmcp-x: error: the following arguments are required: --token",
    "mcp-x: error: the following arguments are required: --token",
  ],
  [
    "a Python module that cannot be run",
    "/usr/bin/python3: No module named mcp_server_time",
    "/usr/bin/python3: No module named mcp_server_time",
  ],
  [
    "a logger of Python",
    "2026-11-16 10:00:00,123 - INFO - starting\n2026-11-16 10:00:00,200 - ERROR - GITHUB_TOKEN not configured\n2026-11-16 10:00:00,201 - INFO - bye",
    "2026-11-16 10:00:00,200 - ERROR - GITHUB_TOKEN not configured",
  ],
  [
    "a package that uvx does not find, wrapped",
    `  × No solution found when resolving tool dependencies:
  ╰─▶ Because mcp-server-nope was not found in the package registry and you
      require mcp-server-nope, we can conclude that your requirements are
      unsatisfiable.`,
    "Because mcp-server-nope was not found in the package registry and you require mcp-server-nope, we can conclude that your requirements are unsatisfiable.",
  ],
  [
    "uvx behind a proxy with a certificate of its own",
    `error: Failed to fetch: \`https://pypi.org/simple/mcp-server-time/\`
  Caused by: Request failed after 3 retries
  Caused by: error sending request for url (https://pypi.org/simple/mcp-server-time/)
  Caused by: client error (Connect)
  Caused by: invalid peer certificate: UnknownIssuer`,
    "error: Failed to fetch: `https://pypi.org/simple/mcp-server-time/` Caused by: invalid peer certificate: UnknownIssuer",
  ],
  [
    "a program that a package of uvx does not have",
    "Installed 1 package in 5ms\nAn executable named `mcp-x` is not provided by package `pip`.\nThe following executables are available:\n- pip\n- pip3",
    "An executable named `mcp-x` is not provided by package `pip`.",
  ],
  [
    "Docker that does not run",
    `docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?

Run 'docker run --help' for more information`,
    "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
  ],
  [
    "an image that Docker may not pull",
    `Unable to find image 'acme/none:latest' locally
docker: Error response from daemon: pull access denied for acme/none, repository does not exist or may require 'docker login': denied: requested access to the resource is denied

Run 'docker run --help' for more information`,
    /^docker: Error response from daemon: pull access denied for acme\/none/,
  ],
  [
    "a panic of Go",
    `panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x482a11]

goroutine 1 [running]:
main.main()
\t/srv/main.go:5 +0x1d
exit status 2`,
    "panic: runtime error: invalid memory address or nil pointer dereference",
  ],
  [
    "a command of Go that prints its usage",
    `Error: GITHUB_PERSONAL_ACCESS_TOKEN not set
Usage:
  server stdio [flags]

Flags:
  -h, --help   help for stdio

Global Flags:
      --read-only   Restrict the server to read-only operations`,
    "Error: GITHUB_PERSONAL_ACCESS_TOKEN not set",
  ],
  [
    "structured logs of Go",
    'time=2026-11-16T10:00:00Z level=INFO msg="starting"\ntime=2026-11-16T10:00:01Z level=ERROR msg="cannot read config" err="open c.yaml: no such file"\ntime=2026-11-16T10:00:01Z level=INFO msg="shutting down"',
    /level=ERROR msg="cannot read config"/,
  ],
  [
    "a panic of Rust",
    `
thread 'main' (32461) panicked at src/main.rs:1:53:
called \`Result::unwrap()\` on an \`Err\` value: NotPresent
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616/library/std/src/panicking.rs:689:5
   1: core::panicking::panic_fmt
note: Some details are omitted, run with \`RUST_BACKTRACE=full\` for a verbose backtrace.`,
    "thread 'main' (32461) panicked at src/main.rs:1:53: called `Result::unwrap()` on an `Err` value: NotPresent",
  ],
  [
    "an error of Rust with its cause",
    "Error: failed to load the config\n\nCaused by:\n    environment variable not found: TOKEN",
    "Error: failed to load the config Caused by: environment variable not found: TOKEN",
  ],
  [
    "Java",
    `Exception in thread "main" java.lang.IllegalStateException: API key missing
\tat J.main(J.java:1)
Caused by: java.lang.NumberFormatException: For input string: "x"
\tat java.base/java.lang.Integer.parseInt(Integer.java:668)`,
    /NumberFormatException: For input string: "x"/,
  ],
  [
    "a program that a shell does not find",
    "sh: 1: mcp-server-x: not found",
    "sh: 1: mcp-server-x: not found",
  ],
  [
    "a library that is missing",
    "./server: error while loading shared libraries: libssl.so.1.1: cannot open shared object file: No such file or directory",
    /libssl\.so\.1\.1/,
  ],
  ["words that look like nothing known", "hello\nboom\nbye now", "bye now"],
];

it.each(outputs)("names the reason of %s", (_, output, expected) => {
  const found = failureLine(output.split("\n").filter((line) => line.trim() !== ""));
  if (typeof expected === "string") expect(found).toBe(expected);
  else expect(found).toMatch(expected);
});

it("says nothing of a program that printed nothing but its inside", () => {
  expect(failureLine([])).toBeUndefined();
  expect(failureLine(["    at main (/srv/index.js:1:1)", "Node.js v20.20.2", "----"])).toBeUndefined();
});

it("stays short, and is quick with whatever a program prints", () => {
  const hostile = [
    `Error: ${"x".repeat(2_000)}`,
    `${" |".repeat(1_000)}`,
    "(".repeat(2_000),
    "a:".repeat(1_000),
  ];
  const lines = Array.from({ length: 500 }, (_, at) => hostile[at % hostile.length] ?? "");
  const before = performance.now();
  expect(failureLine(lines)?.length).toBeLessThan(500);
  expect(performance.now() - before).toBeLessThan(5_000);
});
