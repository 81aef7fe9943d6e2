import { type ClientRequest, type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import {
  isAlive,
  isServerProof,
  newNonce,
  readMasterToken,
  readServerAddress,
  type ServerAddress,
} from "../helpers/server-address.ts";
import { isRecord, parsedJson } from "../helpers/values.ts";
import type { Cli } from "./cli.ts";
import { CliError, isCliError } from "./cli-error.ts";
import { findWorkspace } from "./workspace.ts";

export class ServerClient {
  /** Where the server is, without a path. */
  readonly url: string;
  readonly #token: string;
  readonly #advice: string;

  private constructor(url: string, token: string, advice: string) {
    this.url = url;
    this.#token = token;
    this.#advice = advice;
  }

  /**
   * Finds the server by the address it wrote into the workspace, and makes it prove its identity: another program may
   * listen on the port of a killed server and must not get the token. Throws `CliError` when there is no server.
   */
  static async find(cli: Cli, patience = PATIENCE): Promise<ServerClient> {
    const workspace = findWorkspace(cli);
    const advice = `Start one with: ${cli.commandLine("serve")}`;
    const address = await readServerAddress(workspace);
    const token = await readMasterToken(workspace);
    if (address === undefined || token === undefined) {
      throw new CliError(`No server runs on ${workspace}. ${advice}`, { code: "no_server" });
    }
    await checkProof(address, token, advice, patience);
    return new ServerClient(address.url, token, advice);
  }

  /** Like `find`, but resolves with undefined when no server runs on the workspace. */
  static async findIfAny(cli: Cli, patience?: number): Promise<ServerClient | undefined> {
    return ServerClient.find(cli, patience).catch((thrown) => {
      if (!isCliError(thrown, "no_server")) throw thrown;
      return undefined;
    });
  }

  /** Returns the body of the answer. Throws `CliError` with the code and message of a refusal. */
  async ask<Body>(path: string, method = "GET", body?: unknown): Promise<Body> {
    // The cast is safe: the caller names the type that the API documents for this path.
    return parsedJson(await this.text(path, method, body)) as Body;
  }

  /**
   * Returns the text of an answer that is not JSON. Throws like `ask`. Asks with `node:http`, because `fetch` takes longer to
   * load than Node itself to start.
   */
  async text(path: string, method = "GET", body?: unknown): Promise<string> {
    const asked = request(this.url + path, { method, headers: this.#headersFor(body) });
    asked.end(body === undefined ? undefined : JSON.stringify(body));
    const { status, answer } = await answerTo(asked)
      .then(async ({ response }) => ({ status: response.statusCode ?? 0, answer: await text(response) }))
      .catch((error: Error) => {
        throw gone(this.url, this.#advice, error);
      });
    if (status >= 200 && status < 300) return answer;
    throw refusal(status, parsedJson(answer));
  }

  /** Sends a request that is answered with an event stream. Throws like `ask`. */
  async open(path: string, body: unknown): Promise<Response> {
    const response = await fetch(this.url + path, {
      method: "POST",
      // The server never redirects.
      redirect: "error",
      headers: { ...this.#headersFor(body), accept: "text/event-stream" },
      body: JSON.stringify(body),
    }).catch((error: Error) => {
      throw gone(this.url, this.#advice, error);
    });
    if (response.ok) return response;
    throw refusal(response.status, parsedJson(await response.text()));
  }

  /**
   * Asks the server to speak another protocol than HTTP on a connection of its own. Undefined when the server refuses,
   * or is gone.
   */
  async upgrade(path: string, protocol: string, patience = PATIENCE): Promise<Socket | undefined> {
    const headers = { authorization: `Bearer ${this.#token}`, connection: "Upgrade", upgrade: protocol };
    const asked = request(this.url + path, { headers, agent: false }).end();
    const answer = await answerTo(asked, patience).catch(() => undefined);
    answer?.response.resume();
    return answer?.socket;
  }

  #headersFor(body: unknown): Record<string, string> {
    const headers = { authorization: `Bearer ${this.#token}`, "user-agent": "toolrack-cli" };
    return body === undefined ? headers : { ...headers, "content-type": "application/json" };
  }
}

/** Sends one request to the server of the workspace. Throws like `ServerClient.find` and `ask`. */
export async function askServer<Body>(cli: Cli, path: string, method = "GET", body?: unknown): Promise<Body> {
  return (await ServerClient.find(cli)).ask<Body>(path, method, body);
}

interface Answer {
  readonly response: IncomingMessage;
  /** Set when the server agreed to speak another protocol. */
  readonly socket?: Socket;
}

function answerTo(asked: ClientRequest, patience?: number): Promise<Answer> {
  const stop = () => asked.destroy(new Error("It did not answer in time."));
  const timer = patience === undefined ? undefined : setTimeout(stop, patience);
  return new Promise<Answer>((resolve, reject) => {
    asked.on("error", reject);
    asked.on("response", (response) => resolve({ response }));
    asked.on("upgrade", (response, socket, head) => {
      socket.unshift(head);
      // A request over HTTP has a socket of `net`.
      resolve({ response, socket: socket as Socket });
    });
  }).finally(() => clearTimeout(timer));
}

function refusal(status: number, answer: unknown): CliError {
  const error = isRecord(answer) && isRecord(answer.error) ? answer.error : {};
  const { code = "failure", message = `The server answered ${status}.`, details } = error;
  return new CliError(String(message), {
    code: String(code),
    details: isRecord(details) ? details : undefined,
  });
}

/** How long a server may take to prove its identity or to change the protocol, in milliseconds. */
const PATIENCE = 10_000;

async function checkProof(
  address: ServerAddress,
  token: string,
  advice: string,
  patience: number,
): Promise<void> {
  const { url, pid } = address;
  const nonce = newNonce();
  const asked = request(`${url}/identity/${nonce}`).end();
  const answer = await answerTo(asked, patience)
    .then(async ({ response }) => parsedJson(await text(response)))
    .catch((error: Error) => {
      throw gone(url, advice, error);
    });
  const proof = isRecord(answer) ? answer.proof : undefined;
  if (isServerProof(proof, token, Number(new URL(url).port), nonce)) return;
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
