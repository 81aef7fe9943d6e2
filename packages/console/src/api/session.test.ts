// @vitest-environment happy-dom
import { beforeEach, expect, it } from "vitest";
import { currentSession, openSession, signIn, signOut } from "./session.ts";

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

it("asks for a token where there is none, and forgets one that was refused", () => {
  openSession();
  expect(currentSession).toEqual({ token: undefined, refusal: "missing" });
  signIn("old");
  signOut("rejected");
  expect(currentSession.refusal).toBe("rejected");
  openSession();
  expect(currentSession.token).toBeUndefined();
});
