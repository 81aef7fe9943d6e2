import dns, { type LookupAddress } from "node:dns";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createAddressRules, guardedLookup } from "./address.ts";

/** What the name server answers, one list for each time it is asked. */
const answers: LookupAddress[][] = [];

// No name server in a test can be made to change its mind, so this is the one part that is not real.
type Done = (error: null, found: LookupAddress[]) => void;
beforeEach(() => {
  const answer = (_name: string, _options: unknown, done: Done) => done(null, answers.shift() ?? []);
  vi.spyOn(dns, "lookup").mockImplementation(answer as unknown as typeof dns.lookup); // One of its many forms.
});
afterEach(() => {
  vi.restoreAllMocks();
  answers.splice(0);
});

const look = (options: { all?: boolean }) =>
  new Promise<unknown>((resolve, reject) => {
    guardedLookup(createAddressRules([]))("rebind.example", options, (error, address) =>
      error === null ? resolve(address) : reject(error),
    );
  });

test("every lookup is judged anew, so a name that changes its address gains nothing", async () => {
  answers.push([{ address: "8.8.8.8", family: 4 }], [{ address: "127.0.0.1", family: 4 }]);
  expect(await look({})).toBe("8.8.8.8");
  await expect(look({})).rejects.toThrow(
    "Refused to connect to rebind.example (127.0.0.1): it is a loopback address",
  );
});

test("of several addresses only the public ones are given out", async () => {
  const mixed = [
    { address: "10.0.0.1", family: 4 },
    { address: "2606:4700::1111", family: 6 },
    { address: "::ffff:127.0.0.1", family: 6 },
  ];
  answers.push(mixed, mixed);
  expect(await look({ all: true })).toEqual([{ address: "2606:4700::1111", family: 6 }]);
  expect(await look({})).toBe("2606:4700::1111");
});

test("a name without addresses is refused", async () => {
  await expect(look({ all: true })).rejects.toThrow("no address");
});
