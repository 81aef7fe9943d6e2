import { expect, test } from "vitest";
import { downloadName } from "./address.ts";

const url = "https://example.com/files/report.pdf?x=1";

test("the server's name comes first, then the last part of the address", () => {
  expect(downloadName('attachment; filename="data.csv"', url)).toBe("data.csv");
  expect(downloadName("attachment; filename=data.csv; size=3", url)).toBe("data.csv");
  expect(downloadName(undefined, url)).toBe("report.pdf");
  expect(downloadName("inline", url)).toBe("report.pdf");
  expect(downloadName(undefined, "https://example.com/")).toBe("download");
});

test("names in other scripts are decoded", () => {
  expect(downloadName("attachment; filename=\"x\"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.txt", url)).toBe(
    "报告.txt",
  );
  expect(downloadName(`attachment; filename="${Buffer.from("naïve.txt").toString("latin1")}"`, url)).toBe(
    "naïve.txt",
  );
  expect(downloadName(undefined, "https://example.com/%E6%8A%A5%E5%91%8A.txt")).toBe("报告.txt");
});

test.each([
  ['attachment; filename="../../etc/passwd"', "passwd"],
  ['attachment; filename="..\\\\..\\\\boot.ini"', "boot.ini"],
  ['attachment; filename=".."', "report.pdf"],
  ['attachment; filename=".bashrc"', "bashrc"],
  ['attachment; filename="/"', "report.pdf"],
  ["attachment; filename*=UTF-8''a%2F..%2Fb%00.txt", "b_.txt"],
  ['attachment; filename="CON.txt"', "_CON.txt"],
  ["attachment; filename*=UTF-8''invoice%E2%80%AEfdp.exe", "invoice_fdp.exe"],
])("%s cannot lead elsewhere or hide what it is", (disposition, name) => {
  expect(downloadName(disposition, url)).toBe(name);
});

test("a name that is too long keeps its ending", () => {
  const name = downloadName(`attachment; filename*=UTF-8''${"%E8%AA%9E".repeat(200)}.tar`, url);
  expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200);
  expect(name).toMatch(/^語+\.tar$/);
});
