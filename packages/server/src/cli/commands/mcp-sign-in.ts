import { setTimeout as delay } from "node:timers/promises";
import type { McpServerView } from "../../index.ts";
import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { openInBrowser } from "../open-in-browser.ts";
import { ServerClient } from "../server-client.ts";
import { oneLine } from "../text/printable.ts";

const POLL = 500;

/** Sends a person to the page of a server's sign-in, and waits until they came back and the server has started. */
export async function login(cli: Cli, key: string, canOpen: boolean): Promise<number> {
  const client = await ServerClient.find(cli);
  const path = pathOf(key);
  const { since } = await client.ask<McpServerView>(path);
  const begun = await client.ask<{ url: string; expiresAt: number }>(`${path}/login`, "POST");
  if (cli.json) {
    // A program shows the page in its own way, and reads the server's state when it likes.
    cli.printJson(begun);
    return exitCodes.ok;
  }
  cli.talk(`Sign in at ${oneLine(key)} on this page; it works for ten minutes:`);
  cli.print(begun.url);
  if (canOpen && cli.interactive) openInBrowser(begun.url);
  const server = await settled(client, path, since);
  const { signIn, state, reason } = server;
  if (signIn?.signedIn !== true) {
    const why = signIn?.problem ?? "Nobody came back from the page in time.";
    throw new CliError(`Not signed in at ${key}. ${why}`, { code: "mcp_sign_in_failed" });
  }
  cli.talk(`Signed in. ${key}: ${state}${reason === undefined ? "" : `. ${oneLine(reason)}`}`);
  return state === "ready" ? exitCodes.ok : exitCodes.failure;
}

export async function logout(cli: Cli, key: string): Promise<number> {
  const client = await ServerClient.find(cli);
  const { revoked, server } = await client.ask<{ revoked: boolean; server: McpServerView }>(
    `${pathOf(key)}/logout`,
    "POST",
  );
  const how = revoked ? "The tokens were taken back." : "The tokens were forgotten here, but not taken back.";
  if (cli.json) cli.printJson({ revoked, server });
  else cli.talk(`Signed out at ${key}. ${how}`);
  return exitCodes.ok;
}

/** `since` is when the server got into the state that it was in before. */
async function settled(client: ServerClient, path: string, since: number): Promise<McpServerView> {
  for (;;) {
    const server = await client.ask<McpServerView>(path);
    const { pending, signedIn } = server.signIn ?? {};
    const isUnderWay = pending === true;
    const isStarting =
      signedIn === true &&
      server.state !== "disabled" &&
      (server.state === "starting" || server.since === since);
    if (!isUnderWay && !isStarting) return server;
    await delay(POLL);
  }
}

function pathOf(key: string): string {
  return `/api/mcp-servers/${encodeURIComponent(key)}`;
}
