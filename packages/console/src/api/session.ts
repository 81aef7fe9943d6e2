import { reactive, readonly } from "vue";
import { keep, kept } from "../text/index.ts";

const KEY = "toolrack.token";

/**
 * Why the person has to sign in. `missing`: there is no token; `expired`: the token worked on this page, so
 * the page may hold typed text; `rejected`: the token never worked.
 */
export type Refusal = "missing" | "rejected" | "expired";

interface Session {
  token: string | undefined;
  refusal: Refusal | undefined;
}

const session = reactive<Session>({ token: undefined, refusal: undefined });
let wasAccepted = false;

/** The console's sign-in state. */
export const currentSession = readonly(session);

/**
 * Takes the token behind `#token=` out of the address, so that it is neither kept in the history nor
 * shared with a link.
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

/** Signs out in all tabs. */
export function signOut(): void {
  keep(KEY, undefined);
  leave("missing");
}

export function acceptToken(token: string): void {
  if (token === session.token) wasAccepted = true;
}

/**
 * Asks the person to sign in again after the server refused the token. The stored token stays: removing it
 * would sign out other tabs, where text may be typed.
 */
export function refuseToken(token: string | undefined): void {
  if (token !== session.token) return;
  if (token !== undefined) leave(wasAccepted ? "expired" : "rejected");
  else session.refusal ??= "missing";
}

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
