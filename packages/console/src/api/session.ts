import { reactive, readonly } from "vue";
import { keep, kept } from "../text/index.ts";

const KEY = "toolrack.token";

/**
 * Why somebody is asked to sign in. `expired`: the token was good on this page, so that there may be something on it
 * that was typed; `rejected`: it was never good.
 */
export type Refusal = "missing" | "rejected" | "expired";

interface Session {
  token: string | undefined;
  refusal: Refusal | undefined;
}

const session = reactive<Session>({ token: undefined, refusal: undefined });
let wasAccepted = false;

/** Who the console is to the server. */
export const currentSession = readonly(session);

/**
 * Takes the token that the printed address carries behind `#token=`, and removes it from the address bar: what is
 * behind `#` never reaches a server, but it would stay in the history and be shared with a link.
 */
export function openSession(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null && given !== "") {
    keep(KEY, given);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  wasAccepted = false;
  session.token = given || kept(KEY) || undefined;
  session.refusal = session.token === undefined ? "missing" : undefined;
}

export function signIn(token: string): void {
  keep(KEY, token);
  session.token = token;
  session.refusal = undefined;
}

/** Here and in all tabs. */
export function signOut(): void {
  keep(KEY, undefined);
  leave("missing");
}

/** The server took the token. */
export function acceptToken(token: string): void {
  if (token === session.token) wasAccepted = true;
}

/**
 * The server did not take the token. An answer to one that was changed meanwhile says nothing about the one of now. What
 * is kept stays: to remove it would sign other tabs out, and take from them what was typed there.
 */
export function refuseToken(token: string | undefined): void {
  if (token !== session.token) return;
  if (token !== undefined) leave(wasAccepted ? "expired" : "rejected");
  else session.refusal ??= "missing";
}

/** Signs in and out as other tabs do. */
export function followOtherTabs(): void {
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key !== KEY && key !== null) return;
    if (newValue) {
      session.token = newValue;
      session.refusal = undefined;
    } else if (kept(KEY) === undefined) leave("missing");
  });
}

function leave(refusal: Refusal): void {
  session.token = undefined;
  session.refusal = refusal;
  if (refusal !== "expired") wasAccepted = false;
}
