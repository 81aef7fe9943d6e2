import type { IncomingMessage, ServerResponse } from "node:http";
import type { Grant } from "../../auth/grant.ts";
import type { Door } from "./door.ts";
import { HttpError } from "./http-error.ts";
import type { HttpParts } from "./parts.ts";
import { sendError } from "./send.ts";

/**
 * Another surface on the same port. It is given requests as Node has them, after the checks that all requests pass, so
 * that its hot path costs no more than it must.
 */
export interface Mount {
  /** Whether a request for this path, without its query, is meant for it. */
  owns(path: string, method: string): boolean;
  /** `open`: no token at all. */
  readonly access: "open" | "token";
  /** Answers the request. What it throws or rejects with is answered like any other refusal. */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant | undefined): void | Promise<void>;
  /** What it says to who has no token, beside the usual challenge. */
  challenge?(incoming: IncomingMessage): string;
  /** Ends streams that would keep the server from closing. What it has to answer before, it may take a moment for. */
  close?(): void | Promise<void>;
}

/** Answers whether some mount took the request. */
export function mountServer(
  mounts: readonly Mount[],
  door: Door,
  parts: HttpParts,
): (incoming: IncomingMessage, outgoing: ServerResponse) => boolean {
  const serve = async (mount: Mount, incoming: IncomingMessage, outgoing: ServerResponse, path: string) => {
    try {
      const preflight = door.check(incoming, outgoing);
      if (preflight !== undefined) {
        outgoing.writeHead(204, preflight).end();
        return;
      }
      // Whom it knows need not wait, which costs more than to look.
      const admitted = mount.access === "open" ? undefined : admit(mount, incoming);
      const grant = admitted instanceof Promise ? await admitted : admitted;
      await mount.handle(incoming, outgoing, grant);
    } catch (thrown) {
      sendError(thrown, incoming, outgoing, parts, path);
    }
  };
  const admit = (mount: Mount, incoming: IncomingMessage): Grant | Promise<Grant> => {
    const refuse = (thrown: unknown) => {
      throw withChallenge(thrown, mount, incoming);
    };
    try {
      const admitted = door.admit(incoming);
      return admitted instanceof Promise ? admitted.catch(refuse) : admitted;
    } catch (thrown) {
      return refuse(thrown);
    }
  };
  return (incoming, outgoing) => {
    const { url = "/", method = "GET" } = incoming;
    const end = url.indexOf("?");
    const path = end === -1 ? url : url.slice(0, end);
    const mount = mounts.find((candidate) => candidate.owns(path, method));
    if (mount === undefined) return false;
    void serve(mount, incoming, outgoing, path);
    return true;
  };
}

/** What a mount says to who has no token stands beside what the server says. */
function withChallenge(thrown: unknown, mount: Mount, incoming: IncomingMessage): unknown {
  if (!(thrown instanceof HttpError) || thrown.code !== "unauthorized") return thrown;
  const challenge = mount.challenge?.(incoming);
  if (challenge === undefined) return thrown;
  const challenges = [thrown.headers["WWW-Authenticate"], challenge].filter((one) => one !== undefined);
  return new HttpError(thrown.code, thrown.message, {
    details: thrown.details,
    headers: { "WWW-Authenticate": challenges.join(", ") },
  });
}
