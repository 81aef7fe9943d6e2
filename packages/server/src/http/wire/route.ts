import type { IncomingMessage, ServerResponse } from "node:http";
import type { JsonSchemaObject, Logger, ToolRegistry } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import type { Experts } from "../../skills/index.ts";
import type { Store } from "../../store/index.ts";
import type { HttpErrorCode } from "./errors.ts";
import type { Schema, Shape, Values } from "./schema.ts";

/** A request that passed every check: what it says fits the schemas of its route. */
export interface RouteRequest<Params = unknown, Query = unknown, Body = unknown> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** What the caller may do. */
  readonly grant: Grant;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

/** What a handler returns that has written to `outgoing` itself. */
export const sent = Symbol("sent");

/** What a handler returns to say more than the value of a JSON answer. */
export class Reply {
  readonly body: unknown;
  /** The body is sent as the text that it is, not as JSON. */
  readonly contentType: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(body: unknown, options: { contentType?: string; headers?: Readonly<Record<string, string>> }) {
    this.body = body;
    this.contentType = options.contentType;
    this.headers = options.headers ?? {};
  }
}

/** `open`: no token at all. `token`: any. `admin`: one of an admin. */
type Access = "open" | "token" | "admin";

interface RouteDetails {
  readonly description?: string;
  readonly access?: Access;
  /** Members of the path and of the query. Those of the query may always be left out. */
  readonly params?: Shape;
  readonly query?: Shape;
  /** A request without a body is refused. */
  readonly body?: JsonSchemaObject;
  /** A request without a body counts as one with `{}`. */
  readonly optionalBody?: JsonSchemaObject;
  readonly answer: readonly [description: string, schema: JsonSchemaObject, contentType?: string];
  /** When the same may also be answered as an event stream. */
  readonly stream?: string;
  /** When there may also be nothing to answer with (204). */
  readonly empty?: string;
  readonly errors?: readonly HttpErrorCode[];
  /** Takes the token from the URL too. Only for event streams, see `Credentials`. */
  readonly tokenInQuery?: boolean;
}

/** One row of the table from which the router, the validation and `/openapi.json` are all made. */
export interface Route extends RouteDetails {
  readonly method: string;
  /** With `{name}` for parameters. */
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly tag: string;
  readonly access: Access;
  // The table holds routes of all kinds; each is given exactly what its own schemas have let through.
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

/** Makes the routes of one chapter of the API. `access` holds for those that say nothing else. */
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
 * Another surface on the same port. It is given requests as Node has them, after the checks that all requests pass, so
 * that the path of a call through it costs no more than it must.
 */
export interface Mount {
  /** Whether a request for this path, without its query, is meant for it. */
  owns(path: string, method: string): boolean;
  /** `open`: no token at all. */
  readonly access: "open" | "token";
  /** Answers the request. What it throws or rejects with is answered like any other refusal. */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant | undefined): void | Promise<void>;
  /** What it says to a caller without a token, beside the usual challenge. */
  challenge?(incoming: IncomingMessage): string;
  /** Ends streams that would keep the server from closing. What it has to answer before, it may take a moment for. */
  close?(): void | Promise<void>;
}

/** What every extension works with. */
export interface ExtensionParts {
  readonly registry: ToolRegistry;
  readonly skills: { readonly experts: Experts };
  readonly store: Store;
  readonly settings: { readonly heartbeat: number };
  readonly logger: Logger;
}

/** Routes of another surface in the table of the API: the same guard, the same OpenAPI document. */
export interface HttpExtension {
  routes(parts: ExtensionParts): readonly Route[];
  /** The named schemas that its routes refer to. */
  readonly schemas?: Readonly<Record<string, JsonSchemaObject>>;
  /** Called after a token was withdrawn or given other scopes. */
  grantsChanged?(): Promise<void>;
}
