import type { ToolContext } from "@toolrack/core";
import { hashValue } from "@toolrack/core/internal";
import { callerHeaders, type Origin } from "../../calls/index.ts";
import { shellQuote } from "../../helpers/index.ts";
import { tokenSecretName } from "../../store/index.ts";
import type { UpstreamTool } from "./catalogue/catalogue.ts";
import {
  callerNames,
  isolationOf,
  type ServerEntry,
  type ServerLimits,
  signsInByToken,
} from "./config/entry.ts";
import { type Named, nameOf, UpstreamError } from "./failures.ts";
import { limitsOf, Timer } from "./limits.ts";
import type { LogLine } from "./process/recent-lines.ts";
import type { ServerSignIns } from "./sign-in/server-sign-ins.ts";
import { Upstream, type UpstreamOwner } from "./upstream.ts";

/** The server whose callers are kept apart. */
interface ConnectionsOwner extends UpstreamOwner {
  readonly signIns: ServerSignIns;
  /** The connection that reads the lists. */
  readonly upstream: Upstream;
}

/** The connection that one session, one token or one set of a caller's credentials has to itself. */
interface CallerConnection {
  readonly id: string;
  /** The id of the token. */
  readonly owner: string;
  readonly upstream: Upstream;
  /** How many calls and other requests use the connection. */
  users: number;
  /** Ends the connection when nobody has used it for a while. */
  readonly restTimer: Timer;
  /** The client whose session this connection belongs to is gone. The connection ends after its last call. */
  isOver: boolean;
  /** Stops waiting for the end of the client's session. */
  unwatch: (() => void) | undefined;
}

/** How long an unused connection is kept if its entry does not say, in milliseconds. */
const REST = 600_000;
/** A shorter value would stand in other texts by chance, so it could not be masked. As for secrets. */
const SHORTEST_VALUE = 8;

/**
 * The connections to one upstream server that keeps its callers apart: one for each session or token, or for each set of
 * credentials that callers bring. A call finds the connection of its caller here, or opens it.
 */
export class CallerConnections {
  readonly #server: ConnectionsOwner;
  readonly #entry: ServerEntry;
  readonly #names: readonly string[];
  readonly #connections = new Map<string, CallerConnection>();
  /** Connections that are ending. */
  readonly #ending = new Set<Promise<void>>();
  #limits: ServerLimits;
  #isClosed = false;

  constructor(server: ConnectionsOwner) {
    const { entry } = server.wanted;
    this.#server = server;
    this.#entry = entry;
    this.#names = callerNames(entry);
    this.#limits = entry.toolrack?.limits ?? {};
  }

  get state(): string {
    return this.#server.upstream.state;
  }

  get size(): number {
    return this.#connections.size;
  }

  get #name(): string {
    return nameOf(this.#server.upstream);
  }

  lines(): LogLine[] {
    return [...this.#connections.values()].flatMap(({ upstream }) => upstream.lines.all());
  }

  /** Calls a tool over the connection of the call's caller. Rejects like `Upstream.call`. */
  call(tool: UpstreamTool, context: ToolContext): Promise<unknown> {
    const origin = this.#server.context.originOf(context.callId);
    if (origin !== undefined) return this.use(origin, (upstream) => upstream.call(tool, context));
    const text = `The ${this.#name} keeps its callers apart, and who began this chain of calls is no longer known. Make the call anew.`;
    return Promise.reject(new UpstreamError("unavailable", text));
  }

  /** Has work done over the connection of this caller. Rejects with an `UpstreamError` when the caller can have none. */
  async use<Result>(origin: Origin, work: (upstream: Upstream) => Promise<Result>): Promise<Result> {
    const connection = await this.#enter(origin);
    try {
      return await work(connection.upstream);
    } finally {
      connection.users--;
      this.#rest(connection);
      this.#endIfOver(connection);
    }
  }

  /** Opens the connection of this caller, and resolves when it is ready or has failed. Rejects like `use`. */
  greet(origin: Origin): Promise<void> {
    const start = async (upstream: Upstream) => upstream.isOpen || upstream.start();
    return this.use(origin, start).then(() => {});
  }

  limit(limits: ServerLimits): void {
    this.#limits = limits;
    for (const connection of this.#connections.values()) {
      connection.upstream.limit(limits);
      this.#rest(connection);
    }
  }

  /** Ends all connections, or those of one token. The next calls open others. Resolves when nothing of them is left. */
  async reset(owner?: string): Promise<void> {
    for (const connection of [...this.#connections.values()])
      if (owner === undefined || connection.owner === owner) this.#end(connection);
    await Promise.all(this.#ending);
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.reset();
  }

  /** Finds or opens the connection of this caller, and counts one more user of it. */
  async #enter(origin: Origin): Promise<CallerConnection> {
    const server = this.#server;
    const { owner, connection: client } = origin;
    const values = await this.#valuesOf(origin);
    const signIn = server.signIns.of(owner);
    if (signsInByToken(this.#entry) && !(await signIn?.isSignedIn())) throw notSignedIn(server.upstream);
    if (this.#isClosed) throw new UpstreamError("unavailable", `The ${this.#name} was stopped.`);
    const isPerSession = isolationOf(this.#entry) === "session";
    // A caller without any session has one connection for its token.
    const session = isPerSession ? origin.sessionID || client?.id : undefined;
    const id = hashValue([owner, session, [...values]]);
    const known = this.#connections.get(id);
    if (known !== undefined) {
      known.restTimer.clear();
      known.users++;
      return known;
    }
    this.#makeRoom(origin);
    const token = owner.replace(/[^\w-]/g, "_");
    const callerId = session === undefined ? token : `${token}-${hashValue(session).slice(0, 16)}`;
    const remedy = values.size === 0 ? undefined : refusedValues(values.keys());
    const { catalogue } = server.upstream;
    const limits = this.#limits;
    const upstream = new Upstream(server, {
      limits,
      signIn,
      catalogue,
      caller: { id, callerId, values, remedy },
    });
    const connection: CallerConnection = {
      id,
      owner,
      upstream,
      users: 1,
      restTimer: new Timer(),
      isOver: false,
      unwatch: undefined,
    };
    this.#connections.set(id, connection);
    void upstream.start();
    // A session that the caller named itself may go on over other connections.
    if (isPerSession && origin.sessionID === "")
      connection.unwatch = client?.whenClosed(() => {
        connection.isOver = true;
        this.#endIfOver(connection);
      });
    server.context.onChange();
    return connection;
  }

  /** The values that the entry takes from the caller: headers of its request, or else secrets stored for its token. */
  async #valuesOf({ owner, headers }: Origin): Promise<ReadonlyMap<string, string>> {
    const { secrets } = this.#server.context;
    const values = new Map<string, string>();
    for (const name of this.#names) {
      const header = headers?.[callerHeader(name).toLowerCase()];
      const value = header ? String(header) : await secrets.get(tokenSecretName(owner, name));
      const problem =
        value === undefined
          ? `this caller gave no ${name}`
          : value.length < SHORTEST_VALUE
            ? `the ${name} of this caller is shorter than ${SHORTEST_VALUE} characters, so it could not be kept out of records`
            : undefined;
      if (problem !== undefined) {
        const command = `toolrack secrets set ${name} --token ${shellQuote(owner)}`;
        const remedy = `Send it as the header ${callerHeader(name)} of the request, or have the operator store it for this token: ${command}`;
        const text = `The ${this.#name} acts with the credentials of each caller, and ${problem}. ${remedy}`;
        throw new UpstreamError("unavailable", text);
      }
      values.set(name, value ?? "");
    }
    return values;
  }

  /** Throws when there are too many connections. */
  #makeRoom({ owner, isAdmin }: Origin): void {
    const { connections: most, rest = REST } = limitsOf(this.#limits);
    // One token cannot take all connections from the others.
    const mostOfOne = isAdmin ? most : Math.ceil(most / 2);
    const own = [...this.#connections.values()].filter((connection) => connection.owner === owner).length;
    if (this.#connections.size < most && own < mostOfOne) return;
    const whose =
      this.#connections.size >= most
        ? `has ${this.#connections.size} connections for its callers`
        : `has ${own} of its ${most} connections for this token`;
    throw new UpstreamError(
      "busy",
      `The ${this.#name} ${whose}, which is as many as may be. One ends with its session, or ${Math.ceil(rest / 1000)} s after its last call: call again then. The operator can raise toolrack.limits.connections of its entry.`,
    );
  }

  /**
   * Ends a connection that nobody uses, if its session is over or the server refused it. The next call may find that the
   * server takes the same credentials by now, or that the operator has mended it.
   */
  #endIfOver(connection: CallerConnection): void {
    const hasFailed = connection.upstream.state === "failed" || connection.upstream.state === "needs-auth";
    if (connection.users === 0 && (connection.isOver || hasFailed)) this.#end(connection);
  }

  #end(connection: CallerConnection): void {
    if (this.#connections.get(connection.id) !== connection) return;
    this.#connections.delete(connection.id);
    connection.restTimer.clear();
    connection.unwatch?.();
    const ending = connection.upstream.stop().finally(() => {
      this.#ending.delete(ending);
      // Another connection with the same values may have been opened meanwhile.
      if (this.#connections.has(connection.id)) return;
      const { key, context } = this.#server;
      context.maskFor(`${key} ${connection.id}`, []);
      context.onChange();
    });
    this.#ending.add(ending);
  }

  /** Begins to wait for the next user of a connection that nobody uses. */
  #rest(connection: CallerConnection): void {
    if (connection.users === 0)
      connection.restTimer.set(this.#limits.rest ?? REST, () => this.#end(connection));
  }
}

/** The header by which a caller gives the value `name`: `X-Toolrack-Caller-Github-Token` for `GITHUB_TOKEN`. */
function callerHeader(name: string): string {
  const header = `${callerHeaders}${name.replaceAll("_", "-")}`.toLowerCase();
  return header.replace(/\b[a-z]/g, (letter) => letter.toUpperCase());
}

function refusedValues(names: Iterable<string>): string {
  const values = [...names].map((name) => `${name} (header ${callerHeader(name)}, or a secret of the token)`);
  return `It does not take what this caller gave as ${values.join(" and ")}. Give another value.`;
}

function notSignedIn(upstream: Named): UpstreamError {
  const path = `/api/mcp-servers/${encodeURIComponent(upstream.key)}/login`;
  return new UpstreamError(
    "unavailable",
    `The ${nameOf(upstream)} acts with the sign-in of each caller, and nobody has signed in there with this token. Send POST ${path} with this token, and open the url that it answers with.`,
  );
}
