import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import type { StoreOptions } from "../store.ts";
import { describeOnEveryEngine } from "../testing/engines.fixture.ts";

describeOnEveryEngine((place) => {
  /** As a client of the database does it. In one process, stores on one file of SQLite share their connection. */
  const runOutside = async (options: StoreOptions, statement: string): Promise<void> => {
    if (options.url !== undefined) return place.run(options, statement);
    const client = new DatabaseSync(join(options.directory, "toolrack.db"));
    client.exec(statement);
    client.close();
  };

  it("takes rows that an operator writes with no more than the columns that matter", async () => {
    const options = await place.make();
    const { skills, experts } = await place.open(options);
    const quote = options.url?.startsWith("m") ? "`" : '"';
    for (const statement of [
      "insert into skills (id, name) values ('weather456', 'Weather')",
      `insert into skill_tools (id, skill_id, name, description, type, ${quote}usage${quote}, command, endpoint, method)
       values ('xyz789tool345', 'weather456', 'get_weather', null, 'http', null, null, 'https://w.example', 'GET')`,
      "insert into experts (id, name) values ('e1', 'Meteo')",
      "insert into expert_skills (expert_id, skill_id) values ('e1', 'weather456')",
    ]) {
      await runOutside(options, statement);
    }
    expect(await skills.get("weather456")).toMatchObject({ enabled: true, trusted: true, frontMatter: {} });
    expect(await skills.listTools("weather456")).toMatchObject([
      { id: "xyz789tool345", enabled: true, description: "", usage: "", endpoint: "https://w.example" },
    ]);
    expect(await experts.list()).toMatchObject([{ name: "Meteo", skills: ["weather456"], tools: [] }]);
    await expect(experts.add({ name: "meteo" })).rejects.toThrow('"Meteo" already');
  });

  it("tells a row that was edited behind its back by the fingerprint, whatever the column", async () => {
    const options = await place.make();
    const { skills } = await place.open(options);
    await skills.add({
      skill: { id: "s", name: "S", description: "one" },
      tools: [{ id: "t", name: "t", type: "http", description: "aaa" }],
      files: [],
    });
    const seen = new Set([await skills.fingerprint()]);
    const still = await skills.fingerprint();
    expect(seen.has(still)).toBe(true);
    for (const statement of [
      "update skill_tools set description = 'aab' where id = 't'",
      "update skills set description = 'two' where id = 's'",
      "insert into expert_skills (expert_id, skill_id) values ('e', 's')",
      "delete from expert_skills",
    ]) {
      await runOutside(options, statement);
      const now = await skills.fingerprint();
      expect([statement, seen.has(now) && !statement.startsWith("delete")]).toEqual([statement, false]);
      seen.add(now);
    }
  });
});
