import { expect, test } from "vitest";
import { CallPlaces } from "./live-calls.ts";

const call = (callId: string, caller = "ann") => ({ callId, toolName: "deletes", caller });

test("calls that wait for an answer leave their places to others, but only so many of one caller", () => {
  const places = new CallPlaces(2);
  const waiting = [call("1"), call("2")];
  for (const one of waiting) {
    places.enter(one);
    places.waits(one);
  }
  expect(() => places.enter(call("3"))).toThrow(/2 calls of "deletes" by this caller wait for an answer/);
  places.enter(call("4", "bob"));
  places.enter(call("5", "bob"));
  expect(() => places.enter(call("6", "carl"))).toThrow(/running 2 times/);
});

test("a call that was answered takes a place again, and none is left behind when calls end", () => {
  const places = new CallPlaces(1);
  const one = call("1");
  places.enter(one);
  places.waits(one);
  places.enter(call("2", "bob"));
  places.leave(call("2", "bob"));
  places.goesOn(one);
  expect(() => places.enter(call("3", "bob"))).toThrow(/running 1 times/);
  places.leave(one);
  const other = call("4");
  places.enter(other);
  places.waits(other);
  places.leave(other);
  places.enter(call("5"));
  expect(() => places.enter(call("6"))).toThrow(/running 1 times/);
});
