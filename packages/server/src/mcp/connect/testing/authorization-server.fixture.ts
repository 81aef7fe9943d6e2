import { createHash, randomUUID } from "node:crypto";
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  request,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { buffer, text } from "node:stream/consumers";

export interface AuthorizationOptions {
  /** The address of the MCP server or API that this server guards. */
  readonly behind: string;
  /** It guards an API, whose paths begin with `/api/` and whose tokens name no resource. */
  readonly isApi?: boolean;
  /** How long access tokens are valid, in seconds. Default: an hour. */
  readonly seconds?: number;
  /** A client that was registered by hand. */
  readonly client?: { readonly id: string; readonly secret?: string };
  /**
   * The metadata documents of clients, by address: the addresses that people may be sent back to for each
   * client.
   */
  readonly documents?: Readonly<Record<string, readonly string[]>>;
  /**
   * If false, clients cannot register themselves. `empty`: a registration gets an empty answer. Default: they
   * can.
   */
  readonly registers?: boolean | "empty";
  /** A tool of the MCP server that needs a scope besides `use`. */
  readonly guarded?: { readonly tool: string; readonly scope: string };
  /** The sign-in page that the metadata names. Default: this server's own page. */
  readonly page?: string;
}

interface Code {
  readonly client: string;
  readonly challenge: string;
  readonly redirect: string;
  readonly resource: string | null;
  readonly scope: string;
}

/**
 * An authorization server that also guards an MCP server and lets only requests with its tokens through. It has
 * metadata of both kinds, registration, PKCE, codes and refresh tokens that work once, and revocation.
 */
export class AuthorizationServer {
  readonly #http: HttpServer;
  readonly #options: AuthorizationOptions;
  readonly #clients = new Map<string, { redirects: readonly string[] }>();
  readonly #codes = new Map<string, Code>();
  /** The valid access tokens, each with its scope. */
  readonly #access = new Map<string, string>();
  readonly #refresh = new Map<string, { readonly client: string; readonly scope: string }>();
  /** The grant types of all requests to `/token`, in order. */
  readonly grants: string[] = [];
  readonly revoked: string[] = [];
  /** Every token that was ever given. */
  readonly given: string[] = [];
  /** The tokens of all requests to the MCP server, in order; empty for a request without one. */
  readonly used: string[] = [];
  /** The scopes that sign-ins asked for, in order. */
  readonly scopes: string[] = [];
  /** The clients that asked for tokens, in order. */
  readonly askers: string[] = [];
  registrations = 0;
  /** Called before tokens are made, and awaited. */
  beforeToken: () => Promise<void> | void = () => {};
  /** Called after tokens are made and before they are sent, and awaited. */
  afterToken: () => Promise<void> | void = () => {};
  /** Whether requests for tokens are answered with 503. */
  isDown = false;

  private constructor(options: AuthorizationOptions) {
    this.#options = options;
    this.#http = createServer((incoming, outgoing) => {
      this.#serve(incoming, outgoing).catch((error) => outgoing.writeHead(500).end(String(error)));
    });
  }

  static async start(options: AuthorizationOptions): Promise<AuthorizationServer> {
    const server = new AuthorizationServer(options);
    await new Promise<void>((resolve) => server.#http.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  /** The address of the guarded MCP server for clients. */
  get url(): string {
    return `${this.origin}/mcp`;
  }

  /** Makes all access tokens invalid that were given so far. */
  endAccessTokens(): void {
    this.#access.clear();
  }

  /** Makes all access and refresh tokens invalid that were given so far. */
  endEverything(): void {
    this.#access.clear();
    this.#refresh.clear();
  }

  /**
   * Does what a browser does on the sign-in page: the person agrees at once, and is sent back. `change` may
   * change the address that the person is sent back to.
   */
  async agree(page: string, change: (back: URL) => void = () => {}): Promise<Response> {
    const asked = await fetch(page, { redirect: "manual" });
    const back = new URL(asked.headers.get("location") ?? "");
    change(back);
    return fetch(back);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#http.close(resolve));
    this.#http.closeAllConnections();
    await closed;
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(incoming.url ?? "", this.origin);
    const json = (status: number, body: object) =>
      void outgoing.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (this.#options.isApi && pathname.startsWith("/api/"))
      return this.#guard(incoming, await buffer(incoming), outgoing);
    switch (pathname) {
      case "/mcp":
      case "/messages":
        return this.#guard(incoming, await buffer(incoming), outgoing);
      case "/who/protects/mcp":
        return json(200, {
          resource: this.url,
          authorization_servers: [this.origin],
          scopes_supported: ["use"],
        });
      case "/.well-known/oauth-authorization-server":
        return json(200, this.#metadata());
      case "/register": {
        if (this.#options.registers === "empty") {
          outgoing.writeHead(202).end();
          return;
        }
        const { redirect_uris } = JSON.parse(await text(incoming));
        const id = `client-${++this.registrations}`;
        this.#clients.set(id, { redirects: redirect_uris });
        return json(201, { client_id: id, redirect_uris });
      }
      case "/authorize":
        return this.#authorize(searchParams, outgoing);
      case "/token": {
        const asked = new URLSearchParams(await text(incoming));
        await this.beforeToken();
        const answer = this.#token(asked, incoming);
        await this.afterToken();
        return json("error" in answer ? (answer.error === "server_error" ? 503 : 400) : 200, answer);
      }
      case "/revoke": {
        const token = new URLSearchParams(await text(incoming)).get("token") ?? "";
        this.revoked.push(token);
        this.#access.delete(token);
        this.#refresh.delete(token);
        return json(200, {});
      }
      default:
        return json(404, {});
    }
  }

  #metadata(): object {
    const { origin } = this;
    return {
      issuer: origin,
      authorization_endpoint: this.#options.page ?? `${origin}/authorize`,
      token_endpoint: `${origin}/token`,
      revocation_endpoint: `${origin}/revoke`,
      ...(this.#options.registers === false ? {} : { registration_endpoint: `${origin}/register` }),
      ...(this.#options.documents === undefined ? {} : { client_id_metadata_document_supported: true }),
      response_types_supported: ["code"],
      grant_types_supported: ["authorization_code", "refresh_token", "client_credentials"],
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["none", "client_secret_basic"],
      authorization_response_iss_parameter_supported: true,
    };
  }

  #guard(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse): void {
    const token = /^Bearer (.+)$/.exec(incoming.headers.authorization ?? "")?.[1] ?? "";
    this.used.push(token);
    if (!this.#access.has(token)) {
      const where = `${this.origin}/who/protects/mcp`;
      outgoing
        .writeHead(401, { "www-authenticate": `Bearer resource_metadata="${where}", scope="use"` })
        .end("No token.");
      return;
    }
    const { guarded } = this.#options;
    const isCalled = guarded !== undefined && body.includes(`"name":"${guarded.tool}"`);
    if (isCalled && !this.#access.get(token)?.split(" ").includes(guarded.scope)) {
      const challenge = `Bearer error="insufficient_scope", scope="${guarded.scope}"`;
      outgoing.writeHead(403, { "www-authenticate": challenge }).end("Not with this token.");
      return;
    }
    const { authorization: _, host: _host, ...headers } = incoming.headers;
    // A server of the old transport names the address for messages itself, so that address is kept.
    const { behind } = this.#options;
    const address = /^\/(?:messages|api\/)/.test(incoming.url ?? "")
      ? new URL(incoming.url!, behind)
      : behind;
    const inner = request(address, { method: incoming.method ?? "GET", headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    inner.on("error", () => outgoing.destroy());
    outgoing.on("close", () => inner.destroy());
    inner.end(body);
  }

  #authorize(asked: URLSearchParams, outgoing: ServerResponse): void {
    const client = asked.get("client_id") ?? "";
    const redirect = asked.get("redirect_uri") ?? "";
    const redirects = this.#clients.get(client)?.redirects ?? this.#options.documents?.[client] ?? [];
    const isKnown = client === this.#options.client?.id || redirects.includes(redirect);
    const scope = asked.get("scope") ?? "";
    const { guarded } = this.#options;
    const isAllowed = scope === "use" || scope === `use ${guarded?.scope}`;
    this.scopes.push(scope);
    if (!isKnown || asked.get("code_challenge_method") !== "S256" || !isAllowed) {
      outgoing.writeHead(400).end("An unknown client, no PKCE, or the wrong scope.");
      return;
    }
    const code = randomUUID();
    const challenge = asked.get("code_challenge") ?? "";
    this.#codes.set(code, { client, challenge, redirect, resource: asked.get("resource"), scope });
    const back = new URL(redirect);
    back.searchParams.set("code", code);
    back.searchParams.set("state", asked.get("state") ?? "");
    back.searchParams.set("iss", this.origin);
    back.searchParams.set("session_state", "something that only this server knows");
    outgoing.writeHead(302, { location: back.href }).end();
  }

  #token(asked: URLSearchParams, incoming: IncomingMessage): object {
    const grant = asked.get("grant_type") ?? "";
    this.grants.push(grant);
    if (this.isDown) return { error: "server_error" };
    if (!this.#options.isApi && asked.get("resource") !== this.url) return { error: "invalid_target" };
    const client = this.#clientOf(asked, incoming);
    if (client === undefined) return { error: "invalid_client" };
    this.askers.push(client);
    if (grant === "client_credentials") return this.#give(client, asked.get("scope") ?? "use", false);
    if (grant === "refresh_token") {
      const token = asked.get("refresh_token") ?? "";
      const { client: owner, scope = "" } = this.#refresh.get(token) ?? {};
      if (owner !== client) return { error: "invalid_grant" };
      this.#refresh.delete(token);
      return this.#give(client, scope, true);
    }
    const code = this.#codes.get(asked.get("code") ?? "");
    this.#codes.delete(asked.get("code") ?? "");
    const verifier = asked.get("code_verifier") ?? "";
    const isProven = createHash("sha256").update(verifier).digest("base64url") === code?.challenge;
    if (!isProven || code?.client !== client || code.redirect !== asked.get("redirect_uri")) {
      return { error: "invalid_grant" };
    }
    return this.#give(client, code.scope, true);
  }

  #clientOf(asked: URLSearchParams, { headers }: IncomingMessage): string | undefined {
    const { client } = this.#options;
    const basic = /^Basic (.+)$/.exec(headers.authorization ?? "")?.[1];
    if (basic !== undefined) {
      const pair = Buffer.from(basic, "base64").toString();
      return client !== undefined && pair === `${client.id}:${client.secret}` ? client.id : undefined;
    }
    const id = asked.get("client_id") ?? "";
    if (id === client?.id && client.secret === undefined) return id;
    return this.#clients.has(id) || this.#options.documents?.[id] !== undefined ? id : undefined;
  }

  #give(client: string, scope: string, isRefreshable: boolean): object {
    const access = `access-${randomUUID()}`;
    const refresh = `refresh-${randomUUID()}`;
    this.#access.set(access, scope);
    this.given.push(access);
    if (isRefreshable) {
      this.#refresh.set(refresh, { client, scope });
      this.given.push(refresh);
    }
    const { seconds = 3_600 } = this.#options;
    return {
      access_token: access,
      token_type: "Bearer",
      expires_in: seconds,
      scope,
      ...(isRefreshable ? { refresh_token: refresh } : {}),
    };
  }
}
