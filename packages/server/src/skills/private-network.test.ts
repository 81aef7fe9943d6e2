import { expect, it } from "vitest";
import { createAddressRules } from "../access/network/address.ts";
import { reachableRanges } from "./workspace-skills.ts";

const refuses = (address: string, config: object, environment: NodeJS.ProcessEnv) =>
  createAddressRules(reachableRanges(["192.0.2.9"], config, environment)).refusal("host", address) !==
  undefined;

it("opens private networks by config or variable, and never where clouds hand out credentials", () => {
  for (const address of ["127.0.0.1", "10.1.2.3", "192.168.0.1", "::1", "fd00::1"]) {
    expect(refuses(address, {}, {})).toBe(true);
    expect(refuses(address, { allowPrivateNetwork: true }, {})).toBe(false);
    expect(refuses(address, {}, { TOOLRACK_ALLOW_PRIVATE_NETWORK: "1" })).toBe(false);
    expect(refuses(address, {}, { TOOLRACK_ALLOW_PRIVATE_NETWORK: "0" })).toBe(true);
  }
  expect(refuses("169.254.169.254", { allowPrivateNetwork: true }, {})).toBe(true);
  expect(refuses("192.0.2.9", {}, {})).toBe(false);
});
