import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { readServerAddress } from "../../server-address.ts";
import type { Cli } from "./cli.ts";
import { CliError } from "./cli-error.ts";
import { findWorkspace } from "./find-workspace.ts";

/** Talks to the server that serves the workspace. */
export class ServerClient {
  readonly #url: string;
  readonly #token: string;
  readonly #advice: string;

  private constructor(url: string, token: string, advice: string) {
    this.#url = url;
    this.#token = token;
    this.#advice = advice;
  }

  /** Finds the server by what it noted in the workspace. Throws `CliError` when there is none. */
  static async find(cli: Cli): Promise<ServerClient> {
    const workspace = findWorkspace(cli.directory);
    const advice = `Start one with: ${cli.commandLine("serve")}`;
    const address = await readServerAddress(workspace);
    const token = await readFile(join(workspace, ".toolrack", "token"), "utf8").catch(() => undefined);
    if (address === undefined || token === undefined) {
      throw new CliError(`No server runs on ${workspace}. ${advice}`, { code: "no_server" });
    }
    return new ServerClient(address.url, token.trim(), advice);
  }

  /** The answer's body. Throws `CliError` for a refusal, with its code and its words. */
  async ask<Body>(path: string, method = "GET", body?: unknown): Promise<Body> {
    const response = await fetch(this.#url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }).catch((error: Error) => {
      throw new CliError(`No server answers at ${this.#url} any more. ${this.#advice}`, {
        code: "no_server",
        details: { url: this.#url, cause: String(error.cause ?? error.message) },
      });
    });
    const answer = await response.json().catch(() => undefined);
    // What the server answers is what its description says.
    if (response.ok) return answer as Body;
    const {
      code = "failure",
      message = `The server answered ${response.status}.`,
      details,
    } = (
      answer as { error?: { code?: string; message?: string; details?: Record<string, unknown> } } | undefined
    )?.error ?? {};
    throw new CliError(message, { code, ...(details === undefined ? {} : { details }) });
  }
}
