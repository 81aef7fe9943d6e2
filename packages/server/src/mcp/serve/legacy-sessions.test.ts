import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import { Caller } from "./caller.ts";
import { HttpSessions } from "./http-sessions.ts";
import { initializeParams } from "./testing/initialize-params.ts";
import { ServedRack } from "./testing/served-rack.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({});
});
afterAll(() => rack?.[Symbol.asyncDispose]());

const limits = { most: 1, idle: 60_000 };
const caller = new Caller(masterGrant);

test("a session that cannot be opened takes nobody's place", async () => {
  const { serving } = await surfaceParts(rack);
  const sessions = new HttpSessions(serving, limits);
  expect(() => sessions.open(caller, { ...initializeParams, capabilities: 5 })).toThrow("capabilities");
  expect(sessions.open(caller, initializeParams)).toBeDefined();
  expect(sessions.size).toBe(1);
  sessions.close();
});

test("what is initialized after the end is no session, and nobody tells it anything", async () => {
  const { serving } = await surfaceParts(rack);
  const sessions = new HttpSessions(serving, limits);
  const join = vi.spyOn(serving.changes, "join");
  sessions.close();
  expect(sessions.open(caller, initializeParams)).toBeUndefined();
  expect([sessions.size, join.mock.calls]).toEqual([0, []]);
});
