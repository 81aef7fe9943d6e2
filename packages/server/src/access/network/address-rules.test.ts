import { describe, expect, test } from "vitest";
import { createAddressRules } from "./address.ts";

const refusal = (address: string, allow: string[] = [], host = address) =>
  createAddressRules(allow).refusal(host, address);

describe("without exceptions", () => {
  test.each(["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])(
    "%s is public",
    (address) => expect(refusal(address)).toBeUndefined(),
  );

  test.each([
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fd00:ec2::254",
    "ff02::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2001:0:1::1",
    "2001:db8::1",
    "::ffff:168.63.129.16",
  ])("%s is refused", (address) => expect(refusal(address)).toBeTypeOf("string"));

  test("what is no address is refused", () => {
    expect(refusal("0x7f.1")).toBeTypeOf("string");
    expect(refusal("")).toBeTypeOf("string");
  });
});

describe("exceptions", () => {
  test("a single address, in whatever spelling", () => {
    expect(refusal("10.0.0.5", ["10.0.0.5"])).toBeUndefined();
    expect(refusal("::ffff:10.0.0.5", ["10.0.0.5"])).toBeUndefined();
    expect(refusal("::1", ["[0:0::1]"])).toBeUndefined();
    expect(refusal("10.0.0.6", ["10.0.0.5"])).toBeTypeOf("string");
  });

  test("a range", () => {
    expect(refusal("10.200.3.4", ["10.0.0.0/8"])).toBeUndefined();
    expect(refusal("fd12::1", ["fd12::/16"])).toBeUndefined();
    expect(refusal("11.0.0.1", ["10.0.0.0/8"])).toBeUndefined();
    expect(refusal("192.168.0.1", ["10.0.0.0/8", "fd12::/16"])).toBeTypeOf("string");
  });

  test("a host name, whatever its case, and nothing that merely resembles it", () => {
    expect(refusal("127.0.0.1", ["LocalHost"], "localhost.")).toBeUndefined();
    expect(refusal("127.0.0.1", ["localhost"], "notlocalhost")).toBeTypeOf("string");
    expect(refusal("127.0.0.1", ["localhost"])).toBeTypeOf("string");
  });

  test("everything below a name, but not the name itself", () => {
    const allow = ["*.internal.example"];
    expect(refusal("10.0.0.1", allow, "a.b.internal.example")).toBeUndefined();
    expect(refusal("10.0.0.1", allow, "internal.example")).toBeTypeOf("string");
    expect(refusal("10.0.0.1", allow, "evilinternal.example")).toBeTypeOf("string");
  });
});
