import { isServerProof, newNonce, readMasterToken } from "../access/tokens.ts";

import { isAlive, readServerAddress, type ServerAddress } from "../config/server-address.ts";
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

  /**
   * Finds the server by what it noted in the workspace, and has it prove that it is that server: another program may
   * listen where a server that was killed did, and must not be sent the token. Throws `CliError` when there is none.
   */
  static async find(cli: Cli): Promise<ServerClient> {
    const workspace = findWorkspace(cli.directory);
    const advice = `Start one with: ${cli.commandLine("serve")}`;
    const address = await readServerAddress(workspace);
    const token = await readMasterToken(workspace);
    if (address === undefined || token === undefined) {
      throw new CliError(`No server runs on ${workspace}. ${advice}`, { code: "no_server" });
    }
    await checkProof(address, token, advice);
    return new ServerClient(address.url, token, advice);
  }

  /** Where it is, without a path. */
  get url(): string {
    return this.#url;
  }

  /** Whether this token, which is a client's and not the operator's, is given what is at the path. */
  async admits(token: string, path: string): Promise<boolean> {
    const authorization = `Bearer ${token}`;
    const response = await this.#fetch(path, "GET", undefined, { authorization });
    await response.body?.cancel();
    return response.ok;
  }

  /** The answer's body. Throws `CliError` for a refusal, with its code and its words. */
  async ask<Body>(path: string, method = "GET", body?: unknown): Promise<Body> {
    const response = await this.#fetch(path, method, body);
    const answer = await response.json().catch(() => undefined);
    // What the server answers is what its description says.
    if (response.ok) return answer as Body;
    throw refusal(response, answer);
  }

  /** Sends something that is answered with a stream of events. Throws like `ask`. */
  async open(path: string, body: unknown): Promise<Response> {
    const response = await this.#fetch(path, "POST", body, { accept: "text/event-stream" });
    if (response.ok) return response;
    throw refusal(response, await response.json().catch(() => undefined));
  }

  #fetch(
    path: string,
    method: string,
    body: unknown,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    return fetch(this.#url + path, {
      method,
      // The server never sends anybody elsewhere.
      redirect: "error",
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }).catch((error: Error) => {
      throw gone(this.#url, this.#advice, error);
    });
  }
}

function refusal(response: Response, answer: unknown): CliError {
  const {
    code = "failure",
    message = `The server answered ${response.status}.`,
    details,
  } = (
    answer as { error?: { code?: string; message?: string; details?: Record<string, unknown> } } | undefined
  )?.error ?? {};
  return new CliError(message, { code, ...(details === undefined ? {} : { details }) });
}

/** How long a server may take to say who it is. */
const PATIENCE = 10_000;

async function checkProof(address: ServerAddress, token: string, advice: string): Promise<void> {
  const { url, pid } = address;
  const nonce = newNonce();
  const signal = AbortSignal.timeout(PATIENCE);
  const response = await fetch(`${url}/identity/${nonce}`, { redirect: "error", signal }).catch(
    (error: Error) => {
      throw gone(url, advice, error);
    },
  );
  const answer = (await response.json().catch(() => undefined)) as { proof?: unknown } | undefined;
  if (isServerProof(answer?.proof, token, Number(new URL(url).port), nonce)) return;
  const ended = isAlive(address) ? "" : `The server that was there, process ${pid}, has ended. `;
  throw new CliError(
    `What answers at ${url} is not the server of this workspace, so it was not sent the token. ${ended}${advice}`,
    { code: "no_server", details: { url, pid } },
  );
}

function gone(url: string, advice: string, error: Error): CliError {
  return new CliError(`No server answers at ${url} any more. ${advice}`, {
    code: "no_server",
    details: { url, cause: String(error.cause ?? error.message) },
  });
}
