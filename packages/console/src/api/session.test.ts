// @vitest-environment happy-dom
import { beforeEach, expect, it } from "vitest";
import {
  acceptToken,
  currentSession,
  followOtherTabs,
  openSession,
  refuseToken,
  signIn,
  signOut,
} from "./session.ts";

beforeEach(() => {
  localStorage.clear();
  history.replaceState(null, "", "/");
});

it("takes the token out of the address and keeps it", () => {
  history.replaceState(null, "", "/calls?status=error#token=t%2B1");
  openSession();
  expect(currentSession).toEqual({ token: "t+1", refusal: undefined });
  expect(location.pathname + location.search + location.hash).toBe("/calls?status=error");
  openSession();
  expect(currentSession.token).toBe("t+1");
});

it("asks for a token where there is none, and forgets one when somebody signs out", () => {
  openSession();
  expect(currentSession).toEqual({ token: undefined, refusal: "missing" });
  signIn("old");
  signOut();
  expect(currentSession.refusal).toBe("missing");
  openSession();
  expect(currentSession.token).toBeUndefined();
});

it("tells a token that was never good from one that was, and stays with what it said", () => {
  signIn("never");
  openSession();
  refuseToken("another");
  expect(currentSession.token).toBe("never");
  refuseToken("never");
  expect(currentSession).toEqual({ token: undefined, refusal: "rejected" });

  signIn("good");
  acceptToken("good");
  refuseToken("good");
  expect(currentSession).toEqual({ token: undefined, refusal: "expired" });
  // What the page asks for meanwhile, without a token, does not change why.
  refuseToken(undefined);
  expect(currentSession.refusal).toBe("expired");
});

it("signs in and out with the other tabs, but not because a token expired in one of them", () => {
  openSession();
  followOtherTabs();
  const tell = (newValue: string | null) =>
    window.dispatchEvent(new StorageEvent("storage", { key: "toolrack.token", newValue }));
  localStorage.setItem("toolrack.token", "theirs");
  tell("theirs");
  expect(currentSession).toEqual({ token: "theirs", refusal: undefined });
  acceptToken("theirs");
  refuseToken("theirs");
  expect(localStorage.getItem("toolrack.token")).toBe("theirs");
  signIn("new");
  localStorage.removeItem("toolrack.token");
  tell(null);
  expect(currentSession).toEqual({ token: undefined, refusal: "missing" });
});
