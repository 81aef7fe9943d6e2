import { expect, it } from "vitest";
import { programLine } from "./program-line.ts";

it("starts the very program that serves the console, for its workspace", () => {
  const server = { program: ["/opt/my node", "main.ts"], workspace: "/home/ada/rack" };
  expect(programLine(server, "call", "NAME")).toBe("'/opt/my node' main.ts call NAME --dir /home/ada/rack");
  expect(programLine(undefined, "call", "NAME")).toBe("toolrack call NAME");
});
