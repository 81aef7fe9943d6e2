import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { configVariables, formOf } from "./config-variables.ts";

describe("variables of the environment", () => {
  const set = new Set<string>();
  const give = (values: Readonly<Record<string, string>>) => {
    for (const [name, value] of Object.entries(values)) {
      process.env[name] = value;
      set.add(name);
    }
  };
  afterEach(() => {
    for (const name of set) delete process.env[name];
    set.clear();
  });

  it("set every kind of key, and win over the config file, whose live objects stay what they are", async () => {
    give({
      TOOLRACK_SERVER_PORT: "0",
      TOOLRACK_RETENTION_DAYS: "7.5",
      TOOLRACK_BUILTINS: "false",
      TOOLRACK_LOG_FILE: "calls.jsonl",
      TOOLRACK_ROOTS: "../a, ../b",
      TOOLRACK_SERVER_ALLOWED_HOSTS: '["rack.example"]',
      TOOLRACK_DATABASES: '{"notes":"sqlite:notes.db"}',
      TOOLRACK_TIMEOUT: "",
    });
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.mjs": `class Project {}
        export default { builtins: true, timeout: 5, services: { project: new Project() }, server: { host: "::1", port: 1 } };`,
    });
    const { config, configOrigins } = await workspace.open();
    expect(config).toMatchObject({
      builtins: false,
      timeout: 5,
      roots: ["../a", "../b"],
      databases: { notes: "sqlite:notes.db" },
      log: { file: "calls.jsonl" },
      server: { host: "::1", port: 0, allowedHosts: ["rack.example"] },
      retention: { days: 7.5 },
    });
    expect((config.services as { project?: object }).project?.constructor.name).toBe("Project");
    expect(Object.fromEntries(configOrigins.map(({ key, from }) => [key, from]))).toEqual({
      services: "toolrack.config.mjs",
      timeout: "toolrack.config.mjs",
      "server.host": "toolrack.config.mjs",
      builtins: "TOOLRACK_BUILTINS",
      roots: "TOOLRACK_ROOTS",
      databases: "TOOLRACK_DATABASES",
      "log.file": "TOOLRACK_LOG_FILE",
      "server.port": "TOOLRACK_SERVER_PORT",
      "server.allowedHosts": "TOOLRACK_SERVER_ALLOWED_HOSTS",
      "retention.days": "TOOLRACK_RETENTION_DAYS",
    });
  });

  it("come from the process, then .env.local, then .env", async () => {
    give({ TOOLRACK_TIMEOUT: "1" });
    await using workspace = await TemporaryWorkspace.create({
      ".env.local": "TOOLRACK_TIMEOUT=2\nTOOLRACK_SERVER_PORT=2\n",
      ".env": "TOOLRACK_TIMEOUT=3\nTOOLRACK_SERVER_PORT=3\nTOOLRACK_LOG_KEEP=3\n",
    });
    const { config, configOrigins } = await workspace.open();
    expect(config).toEqual({ timeout: 1, server: { port: 2 }, log: { keep: 3 } });
    expect(configOrigins).toContainEqual({ key: "timeout", from: "TOOLRACK_TIMEOUT" });
    expect(configOrigins).toContainEqual({
      key: "server.port",
      from: "TOOLRACK_SERVER_PORT in .env.local",
    });
    expect(configOrigins).toContainEqual({ key: "log.keep", from: "TOOLRACK_LOG_KEEP in .env" });
  });

  it.each([
    ["TOOLRACK_SERVER_PORT", "high", /integer.*`TOOLRACK_SERVER_PORT`, got string "high"/],
    ["TOOLRACK_SERVER_PORT", "70000", /65,?535.*`TOOLRACK_SERVER_PORT`, got .*70,?000/],
    ["TOOLRACK_BUILTINS", "perhaps", /boolean.*`TOOLRACK_BUILTINS`, got string "perhaps"/],
    ["TOOLRACK_ROOTS", "[1]", /string.*`TOOLRACK_ROOTS/],
    ["TOOLRACK_DATABASES", "postgres://u:hunter22@db/x", /Expected JSON at `TOOLRACK_DATABASES`/],
  ])("say what is wrong: %s=%s", async (name, value, message) => {
    give({ [name]: value });
    await using workspace = await TemporaryWorkspace.create();
    const failure = await workspace.open().then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    expect(failure).toMatchObject({ name: "LoadError", message: expect.stringMatching(message) });
    expect(failure?.message).not.toContain("hunter22");
  });

  it.each(["docs/reference/config.md", "docs/zh-CN/reference/config.md"])(
    "are in %s, all of them as the schema has them",
    (page) => {
      const text = readFileSync(join(import.meta.dirname, "../../../..", page), "utf8");
      const rows = configVariables.map(
        (variable) => `| \`${variable.name}\` | \`${variable.key}\` | ${formOf(variable)} |`,
      );
      const missing = rows.filter((row) => !text.includes(row));
      expect(missing, "Run node scripts/run.mjs scripts/write-config-schema.ts").toEqual([]);
    },
  );
});
