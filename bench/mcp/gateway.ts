import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.ts";

/** Gateways that are programs, with sessions, before the server on stdio. `node gateway.ts mcp-proxy|supergateway PROGRAM WORDS…`. */
const [name, ...program] = process.argv.slice(2);
const upstream = [process.execPath, ...program];
const port = await freePort();
const words =
  name === "mcp-proxy"
    ? ["--host", "127.0.0.1", "--port", String(port), "--server", "stream", "--", ...upstream]
    : [
        ...["--stdio", upstream.join(" "), "--outputTransport", "streamableHttp", "--stateful"],
        ...["--port", String(port), "--logLevel", "none"],
      ];
const gateway = spawn(process.execPath, [programOf(name!), ...words], {
  stdio: ["ignore", "ignore", "inherit"],
});
gateway.on("exit", () => process.exit(1));
while (!(await answers())) await sleep(50);
console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }));

function programOf(packageName: string): string {
  const { resolve } = createRequire(import.meta.url);
  const manifest = fileURLToPath(new URL(`../node_modules/${packageName}/package.json`, import.meta.url));
  const { bin } = createRequire(import.meta.url)(manifest);
  return resolve(join(dirname(manifest), typeof bin === "string" ? bin : bin[packageName]));
}

function answers(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}
