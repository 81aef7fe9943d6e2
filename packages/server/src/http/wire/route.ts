import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { JsonSchemaObject, Logger, ToolRegistry } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import type { Experts } from "../../skills/index.ts";
import type { Store } from "../../store/index.ts";
import type { HttpErrorCode } from "./errors.ts";
import type { Forwarder } from "./forward.ts";
import type { Schema, Shape, Values } from "./schema.ts";

/** A request that passed all checks and fits the schemas of its route. */
export interface RouteRequest<Params = unknown, Query = unknown, Body = unknown> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly grant: Grant;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

/** Returned by a handler that has written to `outgoing` itself. */
export const sent = Symbol("sent");

/** Returned by a handler that also sets headers, or answers with text that is not JSON. */
export class Reply {
  readonly body: unknown;
  /** The content type of a body that is sent as text. Undefined: the body is sent as JSON. */
  readonly contentType: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(body: unknown, options: { contentType?: string; headers?: Readonly<Record<string, string>> }) {
    this.body = body;
    this.contentType = options.contentType;
    this.headers = options.headers ?? {};
  }
}

/** `open`: no token needed. `token`: any token. `admin`: an admin's token. */
type Access = "open" | "token" | "admin";

interface RouteDetails {
  readonly description?: string;
  readonly access?: Access;
  /** The parameters of the path. */
  readonly params?: Shape;
  /** The parameters of the query, which are always optional. */
  readonly query?: Shape;
  /** The schema of the body. A request without a body is refused. */
  readonly body?: JsonSchemaObject;
  /** The schema of the body. A request without a body counts as one with `{}`. */
  readonly optionalBody?: JsonSchemaObject;
  readonly answer: readonly [description: string, schema: JsonSchemaObject, contentType?: string];
  /** Says, for `/openapi.json`, when the route answers with an event stream. */
  readonly stream?: string;
  /** Says, for `/openapi.json`, when the route answers with no content (204). */
  readonly empty?: string;
  readonly errors?: readonly HttpErrorCode[];
  /** Throws when the grant does not allow the request. Called before the request is checked and its body read. */
  readonly admit?: (grant: Grant) => void;
  /** Whether the token may also be in the URL. Only for event streams, see `Credentials`. */
  readonly tokenInQuery?: boolean;
}

/** One row of the table from which router, validation and `/openapi.json` are made. */
export interface Route extends RouteDetails {
  readonly method: string;
  /** The path, with `{name}` for parameters. */
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly tag: string;
  readonly access: Access;
  // The table holds routes with different types; each handler gets what its own schemas accepted.
  readonly handle: (request: RouteRequest<never, never, never>) => unknown;
}

type TypedDetails<Params, Query, Body> = Omit<RouteDetails, "params" | "query" | "body" | "optionalBody"> & {
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Schema<Body>;
  readonly optionalBody?: Schema<Body>;
  /** Returns the value that is answered as JSON, a `Reply`, or `sent`. The types of the request are those of its schemas. */
  readonly handle: (request: RouteRequest<Values<Params>, Partial<Values<Query>>, Body>) => unknown;
};

type None = Record<never, never>;

/**
 * Returns a function that makes routes of one chapter of the API. `access` is the default of these routes.
 */
export function routesFor(tag: string, access: Access) {
  return <const Params extends Shape = None, const Query extends Shape = None, Body = unknown>(
    /** The method and the path, such as `GET /api/tools/{name}`. */
    address: `${"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} /${string}`,
    id: string,
    summary: string,
    details: TypedDetails<Params, Query, Body>,
  ): Route => {
    const space = address.indexOf(" ");
    return {
      tag,
      access,
      ...details,
      method: address.slice(0, space),
      path: address.slice(space + 1),
      id,
      summary,
    };
  };
}

/**
 * Another surface on the same port. It gets Node's own request and response after the common checks, because
 * any layer in between would slow its calls.
 */
export interface Mount {
  /** Whether the mount handles this path, which has no query. */
  owns(path: string, method: string): boolean;
  /** `open`: no token needed. */
  readonly access: "open" | "token";
  /** Answers the request. Errors are answered like those of a route. An open mount gets an empty grant. */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant): void | Promise<void>;
  /**
   * Takes over the connection of a request for `joinProtocol`, or answers that it does not. Without this method, such a
   * request is handled like any other.
   */
  join?(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant, connection: Duplex): void;
  /** Added to the WWW-Authenticate header of the answer to a caller without a valid token. */
  challenge?(incoming: IncomingMessage): string;
  /** Ends streams that would keep the server open. May wait a moment for answers that are still due. */
  close?(): void | Promise<void>;
}

export interface ExtensionParts {
  readonly registry: ToolRegistry;
  readonly skills: { readonly experts: Experts };
  readonly store: Store;
  readonly settings: { readonly heartbeat: number };
  readonly logger: Logger;
  /** Sends requests on to the nodes that they belong to. Undefined when there can be no others. */
  readonly forwarder?: Forwarder | undefined;
}

/** Routes of another surface in the API's table, with the same guard and OpenAPI document. */
export interface HttpExtension {
  routes(parts: ExtensionParts): readonly Route[];
  /** The named schemas that its routes refer to. */
  readonly schemas?: Readonly<Record<string, JsonSchemaObject>>;
  /** Called after a token was withdrawn. */
  grantsChanged?(): Promise<void>;
}
