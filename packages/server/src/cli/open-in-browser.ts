import { spawn } from "node:child_process";

/** Shows a page to whoever sits at this machine. Where that cannot be done, nothing happens. */
export function openInBrowser(address: string): void {
  const { href, protocol } = new URL(address);
  // The address comes from elsewhere: it must not be able to name a program or a file.
  if (protocol !== "https:" && protocol !== "http:") return;
  const [program, ...args] = opener(process.platform);
  const child = spawn(program, [...args, href], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}

/** None of them is a shell: an address that has words of one in it stays an address. */
function opener(platform: NodeJS.Platform): [string, ...string[]] {
  if (platform === "darwin") return ["open"];
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  return ["xdg-open"];
}
