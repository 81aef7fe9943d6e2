import type { Stats } from "node:fs";
import { type AskRequest, PermissionDeniedError } from "@toolrack/core";
import type { Workspace } from "../config/index.ts";
import { namedPowerBelow, type PowerOptions, powerCheck } from "./power-files.ts";
import { isInside, realPathOf } from "./real-path.ts";
import { Unapproved } from "./unapproved-files.ts";

/** The part of a call that a built-in tool hands over when it is about to change a file. */
export interface WritingCall {
  readonly workspace: Workspace;
  readonly caller: string;
  readonly signal: AbortSignal;
  ask(request: AskRequest): Promise<void>;
}

export interface GuardedWrite extends PowerOptions {
  /** The path as people are shown it. */
  readonly shown: string;
  /** What the tool does to the path, for the question and the refusal. Default `Write`. */
  readonly verb?: "Write" | "Copy to" | "Move" | "Delete" | "Make" | "Format";
  /** What is at the path now. A folder is searched, because all that lies in it is moved or removed with it. */
  readonly existing?: Stats | undefined;
  /** Whether a person has already been asked about the call as a whole. */
  readonly isAsked?: boolean;
}

/**
 * Every built-in tool calls this, with the real path, before it writes, moves, removes or makes something.
 * Only a caller with an admin grant may change a file that gives power (see `PowerPlaces`), and a person is
 * asked first. Any other caller is refused, and no approval replaces the grant. Skills and MCP servers that
 * appear through the change wait until an admin approves them.
 */
export async function guardWrite(call: WritingCall, real: string, write: GuardedWrite): Promise<void> {
  const { workspace } = call;
  const { shown, verb = "Write", isAsked = false } = write;
  const power = (await powerCheck(workspace))(real, write);
  const reason = power ?? (await reasonToRefuse(call, real, write));
  if (reason !== undefined && workspace.isAdmin !== true) throw refusal(verb, shown, reason);
  const isOutside = !isInside(await realPathOf(workspace.directory), real);
  const question = power ?? (isOutside ? "It lies outside the workspace's directory." : undefined);
  if (question !== undefined && !isAsked) {
    await call.ask({ message: `${verb} ${shown}? ${question}`, details: { path: shown } });
  }
  if (power !== undefined) await new Unapproved(workspace).note(real, call.caller);
}

/** Why a caller without an admin grant may not change a path that itself gives no power. */
async function reasonToRefuse(
  { workspace, signal }: WritingCall,
  real: string,
  { existing, above = true }: GuardedWrite,
): Promise<string | undefined> {
  if (workspace.isAdmin === true || existing === undefined) return undefined;
  if (existing.isDirectory()) {
    const below = above ? await namedPowerBelow(workspace, real, signal) : undefined;
    return below === undefined ? undefined : `It holds ${below}, which gives power.`;
  }
  if (existing.nlink === 1) return undefined;
  return "It has other names (hard links), which may be those of such a file.";
}

function refusal(verb: string, shown: string, reason: string): PermissionDeniedError {
  const what = verb.toLowerCase();
  const where = shown === "." ? "the workspace as a whole" : shown;
  return new PermissionDeniedError(
    `This call may not ${what} ${where}. ${reason} Only a token with an admin grant may do that through a tool. Use another path, or ask an operator to make the change.`,
    { data: { path: shown } },
  );
}
