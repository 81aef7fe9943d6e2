import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Client } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { revisions, runSuite, SUITE_LIMIT } from "../serve/testing/conformance-suite.ts";
import { ServedRack } from "../serve/testing/served-rack.ts";
import { conforms, rackBefore } from "./testing/gateway.fixture.ts";

const fixture = (name: string) => fileURLToPath(new URL(`./testing/${name}`, import.meta.url));

test.each(revisions)(
  "a server that is a process passes all that %s requires, through the rack",
  {
    timeout: SUITE_LIMIT,
  },
  async (revision) => {
    const entry = { command: process.execPath, args: [fixture("everything-server.fixture.ts")] };
    await using rack = await rackBefore(entry);
    await conforms(rack, revision);
  },
);

/** How many scenarios a revision requires of a client. */
const required = { "2026-07-28": 32, "2025-11-25": 18 };

test.each(revisions)(
  "the rack passes all that %s requires of a client",
  {
    timeout: SUITE_LIMIT,
  },
  async (revision) => {
    await using rack = await ServedRack.open({});
    const control = await startControl((scenario) => new Scenario(rack, scenario, revision).run());
    const { port } = control.address() as AddressInfo; // Only a server on a pipe has no port.
    const program = `${process.execPath} ${fixture("conformance-client.fixture.mjs")} http://127.0.0.1:${port}`;
    const run = await runSuite("client", revision, ["--command", program]);
    control.close();
    const scored = run.passed.length + run.failed.length - run.unscored.length;
    expect(run.failed.filter((name) => !run.unscored.includes(name))).toEqual([]);
    expect(scored).toBe(required[revision]);
    expect(run.code, run.output).toBe(0);
  },
);

interface GivenScenario {
  readonly scenario: string;
  /** The address of the suite's server. */
  readonly url: string;
  readonly context: {
    readonly client_id?: string;
    readonly client_secret?: string;
    readonly issuer?: string;
    readonly toolCalls?: readonly { readonly name: string; readonly arguments: object }[];
  };
}

/** Listens to the programs that the suite starts, and answers each when its scenario has been played. */
async function startControl(play: (scenario: GivenScenario) => Promise<string>): Promise<Server> {
  const server = createServer(async (incoming, outgoing) => {
    const scenario: GivenScenario = JSON.parse(await text(incoming));
    await play(scenario).then(
      (log) => outgoing.end(log),
      (error) => outgoing.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

let scenarios = 0;

/** One scenario: the suite's server is added to the rack, signed in at if it asks for that, and each of its tools called. */
class Scenario {
  readonly #rack: ServedRack;
  readonly #given: GivenScenario;
  readonly #revision: string;
  readonly #key = `scenario${++scenarios}`;
  readonly #log: string[] = [];

  constructor(rack: ServedRack, given: GivenScenario, revision: string) {
    this.#rack = rack;
    this.#given = given;
    this.#revision = revision;
  }

  async run(): Promise<string> {
    const { url } = this.#given;
    const oauth = this.#oauth();
    const toolrack = { protocol: this.#revision, ...(oauth === undefined ? {} : { oauth }) };
    await this.#api("POST", "", { key: this.#key, entry: { url, toolrack } });
    try {
      for (let tries = 0; tries < 2 && (await this.#state()) === "needs-auth"; tries++) await this.#signIn();
      await this.#callTools();
    } finally {
      await this.#api("DELETE", `/${this.#key}`);
    }
    return this.#log.join("\n");
  }

  #oauth(): object | undefined {
    const { scenario, context } = this.#given;
    const clientMetadataUrl = "https://conformance-test.local/client-metadata.json";
    if (scenario === "auth/basic-cimd") return { clientMetadataUrl };
    const { client_id: clientId, client_secret: clientSecret, issuer } = context;
    if (issuer === undefined) return undefined;
    return clientId === undefined ? undefined : { clientId, clientSecret, issuer };
  }

  /** The state of the server, once it is no longer starting. */
  async #state(): Promise<string> {
    for (;;) {
      const { state, reason } = await this.#api("GET", `/${this.#key}`);
      if (state !== "starting") {
        this.#log.push(`${state} ${reason ?? ""}`);
        return state;
      }
      await delay(20);
    }
  }

  /** Signs in. The suite's authorization server asks nobody, and sends back to the rack. */
  async #signIn(): Promise<void> {
    const { url } = await this.#api("POST", `/${this.#key}/login`);
    const response = await fetch(url);
    this.#log.push(`signed in: ${response.status}`);
    await response.body?.cancel();
    await this.#state();
  }

  async #callTools(): Promise<void> {
    const capabilities = { elicitation: { form: { applyDefaults: true } } };
    const prepare = (client: Client) =>
      client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: {} }));
    const client = await this.#rack.connect("legacy", { capabilities }, { prepare });
    const prefix = `mcp_${this.#key}_`;
    const { tools } = await client.listTools();
    const usual = tools.filter(({ name }) => name.startsWith(prefix));
    const calls =
      this.#given.context.toolCalls?.map((call) => ({
        name: `${prefix}${call.name}`,
        arguments: withoutNulls(call.arguments),
      })) ?? usual.map(({ name, inputSchema }) => ({ name, arguments: argumentsFor(inputSchema) }));
    for (const call of calls) {
      let answer = await this.#call(client, call);
      // A larger scope than was granted: the person signs in again, though not for ever.
      for (let tries = 0; tries < 3 && answer.includes("Sign in again"); tries++) {
        await this.#signIn();
        answer = await this.#call(client, call);
      }
    }
    await client.close();
  }

  async #call(client: Client, call: { name: string; arguments: Record<string, unknown> }): Promise<string> {
    const answer = await client.callTool(call).then(JSON.stringify, String);
    this.#log.push(`${call.name}: ${answer}`);
    return answer;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the answers of the API are looked into without checks.
  async #api(method: string, path: string, body?: object): Promise<any> {
    const response = await fetch(`${this.#rack.serving.url}/api/mcp-servers${path}`, {
      method,
      headers: { authorization: `Bearer ${this.#rack.token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer = await response.text();
    if (!response.ok)
      throw new Error(`${method} ${path} was answered with ${answer}. ${this.#log.join("\n")}`);
    return answer === "" ? undefined : JSON.parse(answer);
  }
}

/** The rack refuses null where a schema does not take it, so that its callers leave the argument out. */
function withoutNulls(input: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
}

function argumentsFor({ properties = {} }: { readonly properties?: Readonly<Record<string, unknown>> }) {
  const values: Record<string, unknown> = { number: 5, integer: 5, boolean: true };
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => {
      const { type } = schema as { readonly type?: string };
      return [name, values[type ?? ""] ?? "text"];
    }),
  );
}
